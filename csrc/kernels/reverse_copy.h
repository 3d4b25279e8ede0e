// The plan of reverse_subsequences, as plain data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace torch_dml_ops {

enum class LengthType { kInt32, kInt64, kUInt32, kUInt64 };

inline int64_t length_bytes(LengthType type) {
  return type == LengthType::kInt32 || type == LengthType::kUInt32 ? 4 : 8;
}

struct ReverseDim {
  int64_t size;
  int64_t dst_stride;     // in items
  int64_t src_stride;     // in items
  int64_t length_stride;  // in lengths; 0 for a broadcast and along the axis
  bool is_axis;

  int64_t source_size() const { return size; }

  bool can_split() const { return !is_axis; }
  bool can_drop() const { return size == 1 && !is_axis; }
  bool can_coalesce(const ReverseDim& inner) const {
    return !is_axis && !inner.is_axis && dst_stride == inner.size * inner.dst_stride &&
           src_stride == inner.size * inner.src_stride && length_stride == inner.size * inner.length_stride;
  }
  void coalesce(const ReverseDim& inner) {
    *this = {size * inner.size, inner.dst_stride, inner.src_stride, inner.length_stride, false};
  }

  // Items move together only where they share a length.
  bool can_vectorize() const { return !is_axis && dst_stride == 1 && src_stride == 1 && length_stride == 0; }
  std::array<int64_t, 1> extents() const { return {size}; }
  void vectorize(int64_t vec_size) { size /= vec_size; }
};

// dst[…, i, …] = src[…, i < length ? length - 1 - i : i, …], where i is the index along the axis and `length` the entry
// of `lengths` at the other indices, clamped to [0, size of the axis]. Exactly one dimension is the axis.
struct ReverseCopy {
  int64_t item_size;  // in bytes: 1, 2, 4, 8 or 16
  char* dst;
  const char* src;
  const void* lengths;
  LengthType length_type;
  PlanDims<ReverseDim> dims;

  std::size_t axis() const {
    return std::size_t(std::find_if(dims.begin(), dims.end(), [](const ReverseDim& d) { return d.is_axis; }) -
                       dims.begin());
  }
};

// As for AffineCopies. (Lengths are aligned already.)
inline void align_items(ReverseCopy& copy) {
  CommonAlignment aligned(copy.item_size);
  aligned.include(copy.dst);
  aligned.include(copy.src);
  const int64_t parts = copy.item_size / aligned.value();
  if (parts == 1) return;
  copy.item_size /= parts;
  split_items(copy.dims, ReverseDim{parts, 1, 1, 0, false});
}

// As for an AffineCopy: the part at index j of dimension k, which is not the axis.
inline ReverseCopy at_index(ReverseCopy copy, std::size_t k, int64_t j, int64_t item_size) {
  const ReverseDim d = copy.dims[k];
  copy.dims.erase(&copy.dims[k]);
  copy.dst += j * d.dst_stride * item_size;
  copy.src += j * d.src_stride * item_size;
  copy.lengths = static_cast<const char*>(copy.lengths) + j * d.length_stride * length_bytes(copy.length_type);
  return copy;
}

}  // namespace torch_dml_ops
