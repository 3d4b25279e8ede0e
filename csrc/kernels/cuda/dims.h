// What both kernels do with dimensions: few enough of them, unravelled, and offsets that fit.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "../plan.h"
#include "device.h"
#include "fast_divmod.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {

// Kernels take up to kSmallRank dimensions with offsets of 32 bits, which is most, or else up to kMaxRank with 64.
constexpr std::size_t kSmallRank = 4, kMaxRank = 8;

// Calls f with the parts of at most kMaxRank dimensions that a copy consists of: itself, or one for each index of its
// smallest outer dimension, and so on.
template <class Copy, class F>
void split_outer_dims(const Copy& copy, int64_t item_size, F f) {
  if (copy.dims.size() <= kMaxRank) return f(copy);
  std::size_t smallest = 0;
  for (std::size_t k = 1; k + 1 < copy.dims.size(); ++k)
    if (!copy.dims[smallest].can_split() || (copy.dims[k].can_split() && copy.dims[k].size < copy.dims[smallest].size))
      smallest = k;
  for (int64_t j = 0; j < copy.dims[smallest].size; ++j)
    split_outer_dims(at_index(copy, smallest, j, item_size), item_size, f);
}

// Where a copy reads: from its lowest to its highest byte.
template <class Dims>
Bounds source_bounds(const char* src, const Dims& dims, int64_t item_size) {
  int64_t low = 0, high = 0;
  for (const auto& d : dims) {
    if (d.source_size() == 0) return {src, src};
    (d.src_stride < 0 ? low : high) += (d.source_size() - 1) * d.src_stride;
  }
  return {src + low * item_size, src + (high + 1) * item_size};
}

// The largest offset that `size` indices come to.
inline int64_t max_offset(int64_t size, int64_t stride) { return (size - 1) * std::abs(stride); }

// Unravels a linear index from the last dimension on: takes the index along a dimension off `rest`, of which the
// outermost dimension is left all.
template <class Offset>
__device__ __forceinline__ Offset take_index(Offset& rest, const FastDivmod<Offset>& size, bool is_outermost) {
  if (is_outermost) return rest;
  const auto [outer, index] = size.divmod(rest);
  rest = outer;
  return index;
}

}  // namespace torch_dml_ops::cuda
