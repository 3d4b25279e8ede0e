// How a destination is cut into aligned vectors: items that follow one another and begin at an address that is a
// multiple of their size together, so that a thread writes them by one store.
#pragma once

#include "fast_divmod.h"

namespace torch_dml_ops::cuda {

template <class Offset>
struct DstVec {
  Offset range;   // -1 if there is no such vector
  Offset first;   // which item of its range the vector's item `begin` is
  Offset offset;  // the destination's item at the vector's item 0
  int begin, end;

  __device__ bool exists() const { return range >= 0 && begin < end; }
  __device__ bool is_full(int vec_size) const { return begin == 0 && end == vec_size; }
};

// A destination as ranges without gaps, each of which is cut into vectors.
template <class Offset>
struct VecPartition {
  FastDivmod<Offset> vecs_per_range;
  Offset range_size;  // in items
  Offset count;       // of the vectors of all ranges
  int outer_dim,
      range_dim;  // dimensions [outer_dim, range_dim) tell the ranges apart, the later ones are a range's own

  // Of a destination with these dimensions, the last of which has stride 1; in a kernel, `padding` come before them.
  template <class Item, int kVecSize, class Dims>
  static VecPartition of(const char* dst, const Dims& dims, int padding) {
    std::size_t first = dims.size() - 1;  // of the dimensions of a range
    int64_t range_size = dims.back().size;
    while (first > 0 && dims[first - 1].dst_stride == range_size) range_size *= dims[--first].size;
    int64_t ranges = 1;
    bool alike = true;  // all ranges begin equally far past an aligned address
    for (std::size_t k = 0; k < first; ++k) {
      ranges *= dims[k].size;
      alike = alike && dims[k].dst_stride % kVecSize == 0;
    }
    const int64_t lead = alike ? int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kVecSize : kVecSize - 1;
    const int64_t vecs = (lead + range_size + kVecSize - 1) / kVecSize;
    return {FastDivmod<Offset>(vecs), Offset(range_size), Offset(vecs * ranges), padding, padding + int(first)};
  }

  // The vector of this number. dst_at(range) is where a range begins.
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

// A vector, and the offsets at which its range and its row begin.
template <class Offset, class Offsets>
struct LocatedVec {
  DstVec<Offset> vec;
  Offsets range, row;
  Offset i;         // the index of its first item in the row
  bool in_one_row;  // all of it, a row being what lies along the last dimension
};

// Vector `number` of params.vecs. params.add_offsets(from, to, index, offsets) adds to `offsets` what the linear index
// over dims [from, to) comes to.
template <class Item, int kVecSize, class Params, class Offset>
__device__ __forceinline__ auto locate(const Params& params, Offset number) {
  LocatedVec<Offset, typename Params::Offsets> l{};
  const VecPartition<Offset>& vecs = params.vecs;
  l.vec = vecs.template vec<Item, kVecSize>(number, reinterpret_cast<const Item*>(params.dst), [&](Offset range) {
    params.add_offsets(vecs.outer_dim, vecs.range_dim, range, l.range);
    return l.range.dst;
  });
  if (!l.vec.exists()) return l;  // what follows could be out of all bounds
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
