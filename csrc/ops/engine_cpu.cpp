#include <torch/csrc/stable/ops.h>

#include "../kernels/cpu/engine.h"
#include "../kernels/cpu/huge_pages.h"
#include "../kernels/cpu/inner_loops.h"
#include "engine.h"

namespace torch_dml_ops {
namespace {

void torch_threads(int64_t total, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  torch::stable::parallel_for(0, total, grain, body);
}

}  // namespace

void prepare(const torch::stable::Tensor& result) {
  cpu::prefault_huge_pages(result.mutable_data_ptr(), result.numel() * int64_t(result.element_size()), torch_threads);
}
void run(AffineCopies plan, const torch::stable::Tensor&) { cpu::execute(std::move(plan), torch_threads); }
void run(ReverseCopy plan, const torch::stable::Tensor&) { cpu::execute(std::move(plan), torch_threads); }

}  // namespace torch_dml_ops

// For `python -m torch_dml_ops`.
extern "C" __attribute__((visibility("default"))) const char* torch_dml_ops_simd_level() {
  return torch_dml_ops::cpu::inner_loops().level;
}
