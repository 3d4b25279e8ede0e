// How a destination is cut into vectors that a thread writes by one aligned store each.
//
//   row     what lies along the last dimension
//   range   a row; or, where rows are short and a kernel allows it, all rows along the last dimension but one, if they
//           are contiguous in the destination
//   vector  kVecSize items of a range, at an address that is a multiple of their size together; the first and the last
//           vector of a range may be partial
//
//   range                 items 0 1 2 3 4 5 6 7 8 9
//   vectors of 4, offset 2    [. . 0 1][2 3 4 5][6 7 8 9]
#pragma once

#include <algorithm>

#include "../plan.h"
#include "fast_divmod.h"

namespace torch_dml_ops::cuda {

template <class Offset>
struct VecPartition {
  FastDivmod<Offset> vecs_per_range;
  Offset count;       // how many vectors all ranges have
  Offset range_size;  // in items
  Offset rows_per_range;
  uint32_t misalignment;  // how many items the destination begins past an aligned address

  // `dims` are those of the destination, the last of which has stride 1.
  template <class Item, int kVecSize, class Dims>
  static VecPartition of(const char* dst, const Dims& dims, bool may_span_rows) {
    const auto misalignment = int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kVecSize;
    // Whether what lies along dims [inner, …) always begins equally far past an aligned address.
    const auto alike = [&](std::size_t inner) {
      return std::all_of(dims.begin(), dims.begin() + std::ptrdiff_t(inner),
                         [](const auto& d) { return d.dst_stride % kVecSize == 0; });
    };
    const std::size_t last = dims.size() - 1;
    const int64_t row_size = dims[last].size;
    std::size_t inner = last;
    if (may_span_rows && last > 0 && dims[last - 1].dst_stride == row_size && !alike(last) && alike(last - 1)) --inner;
    const int64_t rows = inner < last ? dims[inner].size : 1, range_size = rows * row_size;
    const int64_t lead = alike(inner) ? misalignment : kVecSize - 1;  // at most
    const int64_t vecs = (lead + range_size + kVecSize - 1) / kVecSize;
    return {FastDivmod<Offset>(vecs), Offset(numel(dims) / range_size * vecs), Offset(range_size), Offset(rows),
            uint32_t(misalignment)};
  }
};

// Where a vector lies. The indices of its item 0 are negative where its range begins with a later item.
template <class Offset, class Offsets>
struct LocatedVec {
  Offsets row;   // at which the row of item 0 begins
  Offset i;      // of item 0 in that row
  Offset index;  // of item 0 in the range: the same unless a range has several rows
  __device__ Offset dst() const { return row.dst + i; }
};

// Vector `number` of params.vecs. params.add_row_offsets(row, offsets) must add the offsets at which a row begins.
template <class Item, int kVecSize, bool kMaySpanRows, class Params, class Offset>
__device__ __forceinline__ auto locate(const Params& params, Offset number) {
  const VecPartition<Offset>& vecs = params.vecs;
  const auto [range, in_range] = vecs.vecs_per_range.divmod(number);
  LocatedVec<Offset, typename Params::Offsets> v{};
  if (kMaySpanRows && vecs.rows_per_range > 1) {
    v.i = v.index = in_range * kVecSize - Offset(vecs.misalignment);
    Offset row = range * vecs.rows_per_range;
    if (v.index > 0) {
      const auto [rows, i] = params.dims[Params::kRank - 1].size.divmod(v.index);
      row += rows;
      v.i = i;
    }
    params.add_row_offsets(row, v.row);
  } else {
    params.add_row_offsets(range, v.row);
    v.i = v.index = in_range * kVecSize - Offset((vecs.misalignment + uint32_t(v.row.dst)) % kVecSize);
  }
  return v;
}

}  // namespace torch_dml_ops::cuda
