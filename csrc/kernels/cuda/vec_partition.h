// How a destination is cut into vectors that a thread writes by one aligned store each.
//
//   range   a maximal contiguous part of the destination: all of its inner dimensions at one index of the outer ones
//   vector  kVecSize items of a range, at an address that is a multiple of their size together; the first and the last
//           vector of a range may be partial
//   row     what lies along the last dimension; a range is one row or several, and a vector may span rows
//
//   range                 items 0 1 2 3 4 5 6 7 8 9
//   vectors of 4, offset 2    [. . 0 1][2 3 4 5][6 7 8 9]
#pragma once

#include "fast_divmod.h"

namespace torch_dml_ops::cuda {

// One vector of the destination. Its items [begin, end) belong to the range.
template <class Offset>
struct DstVec {
  Offset range;   // -1 if there is no such vector
  Offset first;   // the index in the range of item `begin`
  Offset offset;  // of item 0 in the destination, whether it belongs to the range or not
  int begin, end;

  __device__ bool has_items() const { return range >= 0 && begin < end; }
  __device__ bool is_full(int vec_size) const { return begin == 0 && end == vec_size; }
};

template <class Offset>
struct VecPartition {
  FastDivmod<Offset> vecs_per_range;
  Offset range_size;  // in items
  Offset count;       // how many vectors all ranges have
  int outer_dim;      // dimensions [outer_dim, range_dim) number the ranges,
  int range_dim;      // those from range_dim on are within a range

  // `dims` are those of the destination, the last of which has stride 1; the kernel has `padding` more before them.
  template <class Item, int kVecSize, class Dims>
  static VecPartition of(const char* dst, const Dims& dims, int padding) {
    std::size_t first = dims.size() - 1;  // the first dimension within a range
    int64_t range_size = dims.back().size;
    while (first > 0 && dims[first - 1].dst_stride == range_size) range_size *= dims[--first].size;
    int64_t ranges = 1;
    bool alike = true;  // whether all ranges begin equally far past an aligned address
    for (std::size_t k = 0; k < first; ++k) {
      ranges *= dims[k].size;
      alike = alike && dims[k].dst_stride % kVecSize == 0;
    }
    const int64_t lead = alike ? int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kVecSize : kVecSize - 1;
    const int64_t vecs = (lead + range_size + kVecSize - 1) / kVecSize;
    return {FastDivmod<Offset>(vecs), Offset(range_size), Offset(vecs * ranges), padding, padding + int(first)};
  }

  // Vector `number`. dst_at(range) is the offset at which a range begins.
  template <class Item, int kVecSize, class DstAt>
  __device__ __forceinline__ DstVec<Offset> vec(Offset number, const Item* dst, DstAt dst_at) const {
    DstVec<Offset> vec{-1, 0, 0, 0, 0};
    if (number >= count) return vec;
    const auto [range, in_range] = vecs_per_range.divmod(number);
    const Offset range_at = dst_at(range);
    vec.range = range;
    const auto lead = Offset(reinterpret_cast<uintptr_t>(dst + range_at) / sizeof(Item) % kVecSize);
    const Offset first = in_range * kVecSize - lead;
    vec.offset = range_at + first;
    vec.begin = first < 0 ? int(-first) : 0;
    vec.end = range_size - first < kVecSize ? int(range_size - first) : kVecSize;
    vec.first = first + vec.begin;
    return vec;
  }
};

// A vector, and the offsets at which its range and the row of its first item begin.
template <class Offset, class Offsets>
struct LocatedVec {
  DstVec<Offset> vec;
  Offsets range, row;
  Offset i;         // the index in that row of its first item
  bool in_one_row;  // whether all of its items are in that row
};

// Vector `number` of params.vecs. params.add_offsets(from, to, index, offsets) must unravel the linear index over dims
// [from, to) and add the offsets.
template <class Item, int kVecSize, class Params, class Offset>
__device__ __forceinline__ auto locate(const Params& params, Offset number) {
  LocatedVec<Offset, typename Params::Offsets> l{};
  const VecPartition<Offset>& vecs = params.vecs;
  l.vec = vecs.template vec<Item, kVecSize>(number, reinterpret_cast<const Item*>(params.dst), [&](Offset range) {
    params.add_offsets(vecs.outer_dim, vecs.range_dim, range, l.range);
    return l.range.dst;
  });
  if (!l.vec.has_items()) return l;  // computing more could overflow
  constexpr int kInner = Params::kRank - 1;
  const FastDivmod<Offset>& row_size = params.dims[kInner].size;
  l.i = l.vec.first;
  l.row = l.range;
  if (vecs.range_dim < kInner) {
    const auto [outer, i] = row_size.divmod(l.i);
    l.i = i;
    params.add_offsets(vecs.range_dim, kInner, outer, l.row);
  }
  l.in_one_row = l.i + (l.vec.end - l.vec.begin) <= Offset(row_size.divisor);
  return l;
}

}  // namespace torch_dml_ops::cuda
