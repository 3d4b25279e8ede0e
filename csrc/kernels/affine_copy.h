// The plan of slice1, slice_grad, split and join: a batch of affine copies, dst[d0 + D·i] = src[s0 + S·i], as plain
// data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace torch_dml_ops {

// One dimension of a copy. Index j of the destination reads index (j - begin) / step of the source where that is a
// whole number in [0, count), and is zero everywhere else. A plain copy reads every index: begin 0, step 1, count size.
// The size is at least 1; so is the count, except in the parts that at_index makes of a copy, where 0 means that
// nothing is read.
struct CopyDim {
  int64_t size;
  int64_t dst_stride;  // in items; never negative
  int64_t src_stride;  // in items; any sign, 0 for a broadcast source
  int64_t begin;
  int64_t step;  // at least 1; where the source is read backwards, src_stride is negative
  int64_t count;

  bool reads_all() const { return begin == 0 && step == 1 && count == size; }

  int64_t source_size() const { return count; }

  // The index of the source that index j of the destination reads; -1 if it is zero instead.
  int64_t source_index(int64_t j) const {
    const int64_t distance = j - begin, index = distance / step;
    return distance < 0 || distance % step != 0 || index >= count ? -1 : index;
  }

  bool can_split() const { return true; }
  bool can_drop() const { return size == 1 && begin == 0; }
  bool can_coalesce(const CopyDim& inner) const {
    return inner.reads_all() && step == 1 && dst_stride == inner.size * inner.dst_stride &&
           (count == 1 || src_stride == inner.size * inner.src_stride);
  }
  void coalesce(const CopyDim& inner) {
    *this = {size * inner.size, inner.dst_stride, inner.src_stride, begin * inner.size, 1, count * inner.size};
  }

  bool can_vectorize() const { return dst_stride == 1 && src_stride == 1 && step == 1; }
  std::array<int64_t, 3> extents() const { return {size, begin, count}; }
  void vectorize(int64_t vec_size) {
    size /= vec_size;
    begin /= vec_size;
    count /= vec_size;
  }
};

inline CopyDim plain_dim(int64_t size, int64_t dst_stride, int64_t src_stride) {
  return {size, dst_stride, src_stride, 0, 1, size};
}

struct AffineCopy {
  char* dst;        // where index 0 of every dimension is written
  const char* src;  // where index 0 of every dimension is read
  PlanDims<CopyDim> dims;
};

struct AffineCopies {
  int64_t item_size;  // in bytes: 1, 2, 4, 8 or 16
  SmallVector<AffineCopy, 2> copies;
};

// Splits the items so that each is aligned to its own size. (Items of a buffer that torch did not allocate may not be.)
inline void align_items(AffineCopies& plan) {
  CommonAlignment aligned(plan.item_size);
  for (const AffineCopy& copy : plan.copies) {
    aligned.include(copy.dst);
    aligned.include(copy.src);
  }
  const int64_t parts = plan.item_size / aligned.value();
  if (parts == 1) return;
  plan.item_size /= parts;
  for (AffineCopy& copy : plan.copies) split_items(copy.dims, plain_dim(parts, 1, 1));
}

// The part of a copy at index j of dimension k: a copy without that dimension.
inline AffineCopy at_index(AffineCopy copy, std::size_t k, int64_t j, int64_t item_size) {
  const CopyDim d = copy.dims[k];
  const int64_t index = d.source_index(j);
  copy.dims.erase(&copy.dims[k]);
  copy.dst += j * d.dst_stride * item_size;
  if (index >= 0)
    copy.src += index * d.src_stride * item_size;
  else
    copy.dims.front().count = 0;
  return copy;
}

inline void reorder_and_coalesce(AffineCopy& copy) {
  for (CopyDim& d : copy.dims)
    if (d.count == 1) d.step = 1, d.src_stride = 0;  // of no effect with one index to read, and easier to coalesce
  reorder_and_coalesce(copy.dims);
}

}  // namespace torch_dml_ops
