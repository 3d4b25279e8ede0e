// How a destination is cut into aligned vectors: items that follow one another and begin at an address that is a
// multiple of their size together, so that a thread writes them by one store.
#pragma once

#include "device.h"

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

  // `strides` are those that tell the ranges apart, their bits together.
  template <class Item, int kVecSize>
  static VecPartition of(const char* dst, int64_t strides, int64_t range_size, int64_t ranges, int outer_dim,
                         int range_dim) {
    // Ranges that begin alike need no vector more for beginning elsewhere.
    const bool alike = strides % kVecSize == 0;
    const int64_t lead = alike ? int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kVecSize : kVecSize - 1;
    const int64_t each = (lead + range_size + kVecSize - 1) / kVecSize;
    return {FastDivmod<Offset>(each), Offset(range_size), Offset(each * ranges), outer_dim, range_dim};
  }

  // The vector of this number. dst_at(range) is where a range begins.
  template <class Item, int kVecSize, class DstAt>
  __device__ __forceinline__ DstVec<Offset> vec(Offset number, const Item* dst, DstAt dst_at) const {
    DstVec<Offset> vec{-1, 0, 0, 0, 0};
    if (number >= count) return vec;
    vec.range = vecs_per_range.div(number);
    const Offset in_range = number - vec.range * Offset(vecs_per_range.divisor), range_at = dst_at(vec.range);
    const auto lead = Offset(reinterpret_cast<uintptr_t>(dst + range_at) / sizeof(Item) % kVecSize);
    const Offset first = in_range * kVecSize - lead;
    vec.offset = range_at + first;
    vec.begin = first < 0 ? int(-first) : 0;
    vec.end = range_size - first < kVecSize ? int(range_size - first) : kVecSize;
    vec.first = first + vec.begin;
    return vec;
  }
};

}  // namespace torch_dml_ops::cuda
