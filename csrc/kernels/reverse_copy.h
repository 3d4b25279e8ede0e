// The data-dependent move of reverse_subsequences, as plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "affine_copy.h"

namespace torch_dml_ops {

enum class LengthType { kInt32, kInt64, kUInt32, kUInt64 };

struct ReverseDim {
  int64_t size;
  int64_t dst_stride;     // in items
  int64_t src_stride;     // in items
  int64_t length_stride;  // in lengths; 0 for a broadcast and along the axis
  bool is_axis;
};

// dst[…, i, …] = src[…, i < length ? length - 1 - i : i, …], the index along the axis being i and `length` the entry of
// `lengths` at the other indices, at least 0 and at most the axis' size. Exactly one dimension is the axis.
struct ReverseCopy {
  int64_t item_size;  // in bytes: 1, 2, 4, 8 or 16
  char* dst;
  const char* src;
  const void* lengths;
  LengthType length_type;
  std::vector<ReverseDim> dims;

  int64_t numel() const {
    int64_t n = 1;
    for (const ReverseDim& d : dims) n *= d.size;
    return n;
  }
  std::size_t axis() const {
    return std::size_t(std::find_if(dims.begin(), dims.end(), [](const ReverseDim& d) { return d.is_axis; }) -
                       dims.begin());
  }
};

// As for an AffineCopy. (Lengths are read from tensors of integers, which are aligned.)
inline void align_items(ReverseCopy& copy) {
  CommonAlignment aligned(copy.item_size);
  aligned.include(copy.dst);
  aligned.include(copy.src);
  const int64_t factor = copy.item_size / aligned.value();
  if (factor == 1) return;
  copy.item_size /= factor;
  for (ReverseDim& d : copy.dims) {
    d.dst_stride *= factor;
    d.src_stride *= factor;
  }
  copy.dims.push_back({factor, 1, 1, 0, false});
}

// The same move with as few dimensions as possible, the one whose writes lie closest together last.
inline void reorder_and_coalesce(ReverseCopy& copy) {
  std::vector<ReverseDim>& dims = copy.dims;
  std::erase_if(dims, [](const ReverseDim& d) { return d.size == 1 && !d.is_axis; });
  std::stable_sort(dims.begin(), dims.end(),
                   [](const ReverseDim& a, const ReverseDim& b) { return a.dst_stride > b.dst_stride; });
  for (std::size_t k = dims.size(); k-- > 1;) {
    ReverseDim& outer = dims[k - 1];
    const ReverseDim inner = dims[k];
    if (!outer.is_axis && !inner.is_axis && outer.dst_stride == inner.size * inner.dst_stride &&
        outer.src_stride == inner.size * inner.src_stride && outer.length_stride == inner.size * inner.length_stride) {
      outer = {outer.size * inner.size, inner.dst_stride, inner.src_stride, inner.length_stride, false};
      dims.erase(dims.begin() + std::ptrdiff_t(k));
    }
  }
}

// As for an AffineCopy: how many neighbouring items share a length and can be moved as one.
inline int64_t max_vec_size(const ReverseCopy& copy, bool aligned) {
  const ReverseDim& inner = copy.dims.back();
  if (inner.is_axis || inner.dst_stride != 1 || inner.src_stride != 1 || inner.length_stride != 0) return 1;
  CommonAlignment vec(kMaxItemBytes);
  vec.include(inner.size * copy.item_size);
  for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k) {
    vec.include(copy.dims[k].dst_stride * copy.item_size);
    vec.include(copy.dims[k].src_stride * copy.item_size);
  }
  if (aligned) {
    vec.include(copy.dst);
    vec.include(copy.src);
  }
  return std::max<int64_t>(vec.value() / copy.item_size, 1);
}

inline void vectorize(ReverseCopy& copy, int64_t vec_size) {
  if (vec_size == 1) return;
  copy.item_size *= vec_size;
  for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k) {
    copy.dims[k].dst_stride /= vec_size;
    copy.dims[k].src_stride /= vec_size;
  }
  copy.dims.back().size /= vec_size;
  if (copy.dims.back().size == 1) copy.dims.pop_back();
}

}  // namespace torch_dml_ops
