"""ONNX Runtime with I/O binding. It writes into memory that its arena keeps from one run to the next: that is the form
"out", as no memory is new.
"""

import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
from cases import Case
from onnx import TensorProto, helper

from . import Call

ELEMENT = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
           "uint8": TensorProto.UINT8}  # fmt: skip
LAST = np.iinfo(np.int64).max


def model(case: Case, arrays: dict[str, np.ndarray]) -> onnx.ModelProto | None:
    constants: dict[str, np.ndarray] = {}
    inputs, outputs = list(arrays), ["y"]
    attributes: dict[str, Any] = {}
    if case.operation == "slice":
        starts, ends, steps = [], [], []
        for s, n in zip(case.index, case.shape, strict=True):
            start, stop, step = s.indices(n)
            starts.append(start)
            ends.append(stop if stop >= 0 else -LAST)
            steps.append(step)
        constants = {"starts": np.array(starts), "ends": np.array(ends), "axes": np.arange(len(starts)),
                     "steps": np.array(steps)}  # fmt: skip
        kind = "Slice"
    elif case.operation == "split":
        kind, constants = "Split", {"sizes": np.array(case.split_sizes)}
        outputs, attributes = [f"y{k}" for k in range(case.count)], {"axis": case.axis}
    elif case.operation == "join":
        kind, attributes = "Concat", {"axis": case.axis}
    elif case.operation == "reverse" and case.varies == (0,):
        kind, attributes = "ReverseSequence", {"batch_axis": 0, "time_axis": 1}
        constants = {"lengths": case.sequence_lengths().reshape(-1)}
    elif case.operation == "reverse" and case.varies == (0, 1):
        kind, attributes = "ReverseSequence", {"batch_axis": 0, "time_axis": 1}  # on (rows, axis)
        constants = {"lengths": case.sequence_lengths().reshape(-1)}
    else:
        return None
    node = helper.make_node(kind, [*inputs, *constants], outputs, **attributes)
    element = ELEMENT[case.dtype]
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info(k, element, v.shape) for k, v in arrays.items()],
        [helper.make_tensor_value_info(k, element, None) for k in outputs],
        [onnx.numpy_helper.from_array(v.astype(np.int64), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def bound(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Call:
    """A run of the model on these inputs, by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["BENCHMARK_THREADS"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def prepare(case: Case) -> Call | None:
    if case.form != "out" or case.dtype not in ELEMENT or case.layout != "contiguous":
        return None
    x = case.array()
    if case.operation == "reverse" and case.varies == (0, 1):
        x = x.reshape(-1, case.shape[2])
    at = np.cumsum(case.split_sizes)[:-1].tolist() if case.operation == "join" else []
    pieces = [piece.copy() for piece in np.split(x, at, case.axis)] if at else [x]
    arrays = {f"x{k}": piece for k, piece in enumerate(pieces)}
    made = model(case, arrays)
    if made is None:
        return None
    return bound(made, arrays)
