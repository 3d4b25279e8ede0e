#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "../kernels/cpu/engine.h"
#include "../kernels/cpu/huge_pages.h"
#include "../kernels/cpu/inner_loops.h"
#include "check.h"
#include "execute.h"
#include "overlap.h"

namespace torch_dml_ops {
namespace {

// Torch's error would not say what failed, and nothing but the allocation of a buffer can.
void torch_threads(int64_t total, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  try {
    if (total <= grain)
      body(0, total);  // as parallel_for does, after some detours
    else
      torch::stable::parallel_for(0, total, grain, body);
  } catch (const std::exception&) {
    require(false, "torch_dml_ops: out of memory on cpu, which cannot allocate the buffers of its threads");
  }
}

}  // namespace

void prepare(const Tensor& result, int64_t bytes) {
  cpu::prefault_huge_pages(result.mutable_data(), bytes, torch_threads);
}
void execute(AffineCopies plan, const Tensor&) { cpu::execute(std::move(plan), torch_threads); }
void execute(ReverseCopy plan, const Tensor&) { cpu::execute(std::move(plan), torch_threads); }

}  // namespace torch_dml_ops

// Functions that the Python package calls through ctypes.

extern "C" __attribute__((visibility("default"))) const char* torch_dml_ops_simd_level() {
  return torch_dml_ops::cpu::inner_loops().level;
}

// What TORCH_DML_OPS_SIMD may be, with spaces between.
extern "C" __attribute__((visibility("default"))) const char* torch_dml_ops_simd_levels() {
  static const std::string names = [] {
    std::string list;
    for (const torch_dml_ops::cpu::SimdLevel& level : torch_dml_ops::cpu::simd_levels())
      list += (list.empty() ? "" : " ") + std::string(level.loops.level);
    return list;
  }();
  return names.c_str();
}

// find_overlap on `count` views; for a single view, overlaps_itself. `numbers` has of each view its address in bytes,
// item size, rank, sizes and strides. Returns the Overlap as a number, and in `pair` the indices of the two views.
extern "C" __attribute__((visibility("default"))) int32_t torch_dml_ops_find_overlap(int64_t count,
                                                                                     const int64_t* numbers,
                                                                                     int64_t* pair) {
  using namespace torch_dml_ops;
  std::vector<View> views;
  for (int64_t k = 0; k < count; ++k) {
    const auto rank = std::size_t(numbers[2]);
    views.push_back({numbers[0], numbers[1], {numbers + 3, rank}, {numbers + 3 + rank, rank}});
    numbers += 3 + 2 * rank;
  }
  if (count == 1) return int32_t(overlaps_itself(views[0]));
  const Pair found = find_overlap(views);
  pair[0] = int64_t(found.second);
  pair[1] = int64_t(found.first);
  return int32_t(found.overlap);
}
