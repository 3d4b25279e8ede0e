// The map of the extension: every schema, and which function serves it. Compiled twice: into _C, with the schemas and
// the CPU's functions, and into _C_cuda, with the same functions over the GPU's engine.
#include <torch/csrc/stable/library.h>

#include <stdexcept>
#include <string>

#include "ops/ops.h"

#ifdef TORCH_DML_OPS_CUDA_LIBRARY
#define DEVICE CUDA
#else
#define DEVICE CPU
#endif

// The test suite gives the operators another namespace to run the GPU's kernels on the host.
#ifndef TORCH_DML_OPS_NAMESPACE
#define TORCH_DML_OPS_NAMESPACE torch_dml_ops
#endif

#define LIBRARY_IMPL(ns, device, m) STABLE_TORCH_LIBRARY_IMPL(ns, device, m)
#define LIBRARY(ns, m) STABLE_TORCH_LIBRARY(ns, m)

namespace torch_dml_ops {
namespace {

struct Operator {
  const char* schema;
  void (*function)(StableIValue*, uint64_t, uint64_t);

  std::string name() const { return std::string(schema).substr(0, std::string(schema).find('(')); }
};

constexpr Operator kOperators[] = {
    {"slice1(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
     "SymInt[]? output_sizes=None) -> Tensor",
     TORCH_BOX(&slice1)},
    {"slice1.out(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
     "SymInt[]? output_sizes=None, *, Tensor(a!) out) -> ()",
     TORCH_BOX(&slice1_out)},
    {"slice_grad(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
     "SymInt[] window_strides) -> Tensor",
     TORCH_BOX(&slice_grad)},
    {"slice_grad.out(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
     "SymInt[] window_strides, *, Tensor(a!) out) -> ()",
     TORCH_BOX(&slice_grad_out)},
    {"split(Tensor input, SymInt[] split_sizes, int axis) -> Tensor[]", TORCH_BOX(&split)},
    {"split.out(Tensor input, SymInt[] split_sizes, int axis, *, Tensor(a!)[] out) -> ()", TORCH_BOX(&split_out)},
    {"join(Tensor[] inputs, int axis) -> Tensor", TORCH_BOX(&join)},
    {"join.out(Tensor[] inputs, int axis, *, Tensor(a!) out) -> ()", TORCH_BOX(&join_out)},
    {"reverse_subsequences(Tensor input, Tensor sequence_lengths, int axis) -> Tensor",
     TORCH_BOX(&reverse_subsequences)},
    {"reverse_subsequences.out(Tensor input, Tensor sequence_lengths, int axis, *, Tensor(a!) out) -> ()",
     TORCH_BOX(&reverse_subsequences_out)},
};

}  // namespace
}  // namespace torch_dml_ops

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
LIBRARY(TORCH_DML_OPS_NAMESPACE, m) {
  for (const auto& op : torch_dml_ops::kOperators) m.def(op.schema);
}
#endif

LIBRARY_IMPL(TORCH_DML_OPS_NAMESPACE, DEVICE, m) {
  for (const auto& op : torch_dml_ops::kOperators) m.impl(op.name().c_str(), op.function);
}

#ifdef TORCH_DML_OPS_CPU_ONLY
namespace {

// What a CUDA tensor meets in a build without CUDA kernels.
void no_cuda_kernels(StableIValue*, uint64_t, uint64_t) {
  throw std::runtime_error(
      "torch_dml_ops: this build has no CUDA kernels; build it where nvcc is on the PATH (TORCH_DML_OPS_CUDA=1), or "
      "move the tensors to the CPU");
}

}  // namespace

LIBRARY_IMPL(TORCH_DML_OPS_NAMESPACE, CUDA, m) {
  for (const auto& op : torch_dml_ops::kOperators) m.impl(op.name().c_str(), &no_cuda_kernels);
}
#endif
