"""DirectML itself: its descriptors, feature levels and model files.

>>> from torch_dml_ops.directml import *
>>> x = TensorDesc(TensorDataType.FLOAT64, [4, 4])
>>> SplitOperatorDesc(input_tensor=x, output_tensors=[x], axis=0).validate(FeatureLevel.LEVEL_4_0)
Traceback (most recent call last):
    ...
torch_dml_ops.directml.errors.DescriptorError: SPLIT at feature level 4_0 breaks 2 rules:
  input_tensor.data_type must be one of FLOAT32, FLOAT16, INT32, INT16, UINT32, UINT16, INT8, UINT8 at feature level 4_0, got FLOAT64; allowed from feature level 4_1
  output_tensors[0].data_type must be one of FLOAT32, FLOAT16, INT32, INT16, UINT32, UINT16, INT8, UINT8 at feature level 4_0, got FLOAT64; allowed from feature level 4_1
"""  # noqa: E501

from torch_dml_ops.directml._descriptors.base import OperatorDesc
from torch_dml_ops.directml._graphs.wiring import (
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from torch_dml_ops.directml._running.directmlx import join, reverse_subsequences, slice_, slice_grad, split
from torch_dml_ops.directml.enums import (
    MINIMUM_BUFFER_TENSOR_ALIGNMENT,
    PERSISTENT_BUFFER_ALIGNMENT,
    TEMPORARY_BUFFER_ALIGNMENT,
    TENSOR_DIMENSION_COUNT_MAX,
    TENSOR_DIMENSION_COUNT_MAX1,
    ExecutionFlags,
    FeatureLevel,
    OperatorType,
    TensorDataType,
    TensorFlags,
    TensorType,
)
from torch_dml_ops.directml.errors import DescriptorError, ModelError, ModelWarning, Problem, Violation
from torch_dml_ops.directml.graph import CompiledGraph, Expression, Graph
from torch_dml_ops.directml.model import Model
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.operator_descs import (
    ElementWiseIdentityOperatorDesc,
    JoinOperatorDesc,
    ReverseSubsequencesOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
)
from torch_dml_ops.directml.support import Support, check_support, support_table
from torch_dml_ops.directml.tensor_desc import TensorDesc, TensorPolicy, TensorProperties

__all__ = [
    "MINIMUM_BUFFER_TENSOR_ALIGNMENT",
    "PERSISTENT_BUFFER_ALIGNMENT",
    "TEMPORARY_BUFFER_ALIGNMENT",
    "TENSOR_DIMENSION_COUNT_MAX",
    "TENSOR_DIMENSION_COUNT_MAX1",
    "CompiledGraph",
    "DescriptorError",
    "ElementWiseIdentityOperatorDesc",
    "ExecutionFlags",
    "Expression",
    "FeatureLevel",
    "Graph",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "JoinOperatorDesc",
    "Model",
    "ModelError",
    "ModelWarning",
    "Operator",
    "OperatorDesc",
    "OperatorGraphNodeDesc",
    "OperatorType",
    "OutputGraphEdgeDesc",
    "Problem",
    "ReverseSubsequencesOperatorDesc",
    "Slice1OperatorDesc",
    "SliceGradOperatorDesc",
    "SliceOperatorDesc",
    "SplitOperatorDesc",
    "Support",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "TensorProperties",
    "TensorType",
    "Violation",
    "check_support",
    "join",
    "reverse_subsequences",
    "slice_",
    "slice_grad",
    "split",
    "support_table",
]
