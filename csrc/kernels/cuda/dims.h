// What both kernels do with a plan's dimensions: split off those that are too many, bound the offsets, unravel indices.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "../plan.h"
#include "device.h"
#include "fast_divmod.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {

// Kernels exist for as many dimensions as most copies have, rows in a matrix, or most reversals, rows in a batch of
// matrices; and for up to kMaxRank, of which they pass over those that a copy does not have.
constexpr std::size_t kMatrixRank = 2, kBatchRank = 3, kMaxRank = 8;

// Calls f with parts of at most kMaxRank dimensions that make up `copy`: with the copy itself, or with one part for
// each index of its smallest outer dimension, split again as needed.
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

// From the lowest to the highest byte that a copy reads.
template <class Dims>
Bounds source_bounds(const char* src, const Dims& dims, int64_t item_size) {
  int64_t low = 0, high = 0;
  for (const auto& d : dims) {
    if (d.source_size() == 0) return {src, src};
    (d.src_stride < 0 ? low : high) += (d.source_size() - 1) * d.src_stride;
  }
  return {src + low * item_size, src + (high + 1) * item_size};
}

// The largest offset, in absolute terms, within a dimension.
inline int64_t max_offset(int64_t size, int64_t stride) { return std::max<int64_t>(size - 1, 0) * std::abs(stride); }

// No offset of an item and no other index that a kernel computes for a copy is larger than this, in absolute terms.
//
// The others are the numbers of vectors, tiles and panels, of which a copy has at most as many as items: a range of n
// items has at most n vectors, at whatever address it begins. The margin is for the threads of the last chunk, which
// number vectors that do not exist, and for vectors that extend past their range.
template <class Dims>
int64_t index_bound(const Dims& dims) {
  constexpr int64_t kMargin = kThreadsPerBlock + 2 * kMaxItemBytes;
  int64_t dst = 0, src = 0;
  for (const auto& d : dims) {
    dst += max_offset(d.size, d.dst_stride);
    src += max_offset(d.source_size(), d.src_stride);
  }
  return std::max({dst, src, numel(dims)}) + kMargin;
}

// Unravels the linear index `index` over dims [0, kDims), of which those before `first` have size 1, from the last to
// the first: calls add(dim, j, k) with the index j along dim k. The outermost gets all that is left. More than two are
// a loop at run time: unrolled, it would be half of the kernels' code, of which most copies would run a part.
template <int kDims, class Dims, class Offset, class Add>
__device__ __forceinline__ void unravel(const Dims& dims, int first, Offset index, Add add) {
  if constexpr (kDims == 0) return;
  if constexpr (kDims <= 2) first = 0;
  int k = kDims - 1;
#pragma unroll(kDims <= 2 ? kDims : 1)
  for (; k > first; --k) {
    const auto [outer, j] = dims[k].size.divmod(index);
    add(dims[k], j, k);
    index = outer;
  }
  add(dims[k], index, k);
}

}  // namespace torch_dml_ops::cuda
