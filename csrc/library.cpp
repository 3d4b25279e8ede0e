// The map of the extension: every schema, and which function serves it. Compiled twice: into _C, with the schemas and
// the CPU's functions, and into _C_cuda, with the same functions over the GPU's engine.
#include <torch/csrc/stable/library.h>

#include <stdexcept>

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

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
LIBRARY(TORCH_DML_OPS_NAMESPACE, m) {
  m.def(
      "slice1(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
      "SymInt[]? output_sizes=None) -> Tensor");
  m.def(
      "slice1.out(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
      "SymInt[]? output_sizes=None, *, Tensor(a!) out) -> ()");
  m.def(
      "slice_grad(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
      "SymInt[] window_strides) -> Tensor");
  m.def(
      "slice_grad.out(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
      "SymInt[] window_strides, *, Tensor(a!) out) -> ()");
  m.def("split(Tensor input, SymInt[] split_sizes, int axis) -> Tensor[]");
  m.def("split.out(Tensor input, SymInt[] split_sizes, int axis, *, Tensor(a!)[] out) -> ()");
  m.def("join(Tensor[] inputs, int axis) -> Tensor");
  m.def("join.out(Tensor[] inputs, int axis, *, Tensor(a!) out) -> ()");
  m.def("reverse_subsequences(Tensor input, Tensor sequence_lengths, int axis) -> Tensor");
  m.def("reverse_subsequences.out(Tensor input, Tensor sequence_lengths, int axis, *, Tensor(a!) out) -> ()");
}
#endif

LIBRARY_IMPL(TORCH_DML_OPS_NAMESPACE, DEVICE, m) {
  using namespace torch_dml_ops;
  m.impl("slice1", TORCH_BOX(&slice1));
  m.impl("slice1.out", TORCH_BOX(&slice1_out));
  m.impl("slice_grad", TORCH_BOX(&slice_grad));
  m.impl("slice_grad.out", TORCH_BOX(&slice_grad_out));
  m.impl("split", TORCH_BOX(&split));
  m.impl("split.out", TORCH_BOX(&split_out));
  m.impl("join", TORCH_BOX(&join));
  m.impl("join.out", TORCH_BOX(&join_out));
  m.impl("reverse_subsequences", TORCH_BOX(&reverse_subsequences));
  m.impl("reverse_subsequences.out", TORCH_BOX(&reverse_subsequences_out));
}

#ifdef TORCH_DML_OPS_CPU_ONLY
namespace {

// What a CUDA tensor meets in a build without CUDA kernels.
void no_cuda_kernels(StableIValue*, uint64_t, uint64_t) {
  throw std::runtime_error(
      "torch_dml_ops: this build has no CUDA kernels; build it where nvcc is on the PATH (TORCH_DML_OPS_CUDA=1), or "
      "move "
      "the tensors to the CPU");
}

}  // namespace

LIBRARY_IMPL(TORCH_DML_OPS_NAMESPACE, CUDA, m) {
  for (const char* op : {"slice1", "slice1.out", "slice_grad", "slice_grad.out", "split", "split.out", "join",
                         "join.out", "reverse_subsequences", "reverse_subsequences.out"})
    m.impl(op, &no_cuda_kernels);
}
#endif
