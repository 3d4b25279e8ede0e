// What the plans of affine_copy.h and reverse_copy.h have in common: coalescing dimensions and vectorizing items.
//
// A dimension of a plan (CopyDim, ReverseDim) has `size`, `dst_stride` and `src_stride`, the strides in items, and
// these functions:
//   source_size()                            how many indices of the source it reads
//   can_split()                              whether the plan may become one plan for each of its indices
//   can_drop()                               whether the plan is the same without it
//   can_coalesce(inner), coalesce(inner)     whether it and the next inner dimension are one; makes them one
//   can_vectorize(), extents(), vectorize()  whether its items, as the innermost ones, may be moved several at a time
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include "small_vector.h"

namespace torch_dml_ops {

// As many dimensions as most tensors have lie in the plan itself.
template <class Dim>
using PlanDims = SmallVector<Dim, 4>;

constexpr int64_t kMaxItemBytes = 16;  // the largest item, and the widest load and store on a GPU

template <class Dims>
int64_t numel(const Dims& dims) {
  int64_t n = 1;
  for (const auto& d : dims) n *= d.size;
  return n;
}

// The largest power of two, up to `limit`, that divides every number and every address included.
class CommonAlignment {
 public:
  explicit CommonAlignment(int64_t limit) : bits_(uint64_t(limit)) {}
  void include(int64_t number) { bits_ |= uint64_t(number); }
  void include(const void* address) { bits_ |= uint64_t(reinterpret_cast<uintptr_t>(address)); }
  int64_t value() const { return int64_t(1) << std::countr_zero(bits_); }

 private:
  uint64_t bits_;
};

// Splits every item into parts.size smaller ones; `parts` becomes the innermost dimension.
template <class Dim>
void split_items(PlanDims<Dim>& dims, const Dim& parts) {
  for (Dim& d : dims) {
    if (d.size == 1) continue;  // its strides may be any numbers, even such as would overflow
    d.dst_stride *= parts.size;
    d.src_stride *= parts.size;
  }
  dims.push_back(parts);
}

// Sorts the dimensions by the destination's stride, the smallest last, and merges those that can be.
template <class Dim>
void reorder_and_coalesce(PlanDims<Dim>& dims) {
  const auto kept = std::remove_if(dims.begin(), dims.end(), [](const Dim& d) { return d.can_drop(); });
  dims.resize(std::size_t(kept - dims.begin()));
  for (auto d = dims.begin(); d != dims.end(); ++d)  // std::stable_sort would allocate memory
    std::rotate(
        std::upper_bound(dims.begin(), d, *d, [](const Dim& a, const Dim& b) { return a.dst_stride > b.dst_stride; }),
        d, d + 1);
  for (std::size_t k = dims.size(); k-- > 1;) {
    if (!dims[k - 1].can_coalesce(dims[k])) continue;
    dims[k - 1].coalesce(dims[k]);
    dims.erase(&dims[k]);
  }
}

// How many neighbouring items can always be moved as one wider item: at most kMaxItemBytes, and aligned to its own size
// as GPUs require. 1 if none. The dimensions are coalesced.
template <class Dim>
int64_t max_vec_size(const PlanDims<Dim>& dims, int64_t item_size, const void* dst, const void* src) {
  if (dims.empty() || !dims.back().can_vectorize()) return 1;
  CommonAlignment vec(kMaxItemBytes);
  vec.include(dst);
  vec.include(src);
  for (std::size_t k = 0; k + 1 < dims.size(); ++k) {
    vec.include(dims[k].dst_stride * item_size);
    vec.include(dims[k].src_stride * item_size);
  }
  for (const int64_t extent : dims.back().extents()) vec.include(extent * item_size);
  return std::max<int64_t>(vec.value() / item_size, 1);
}

// The same dimensions in items `vec_size` times as wide, where vec_size divides max_vec_size.
template <class Dim>
void vectorize(PlanDims<Dim>& dims, int64_t vec_size) {
  if (vec_size == 1) return;
  for (std::size_t k = 0; k + 1 < dims.size(); ++k) {
    dims[k].dst_stride /= vec_size;
    dims[k].src_stride /= vec_size;
  }
  dims.back().vectorize(vec_size);
  if (dims.back().can_drop()) dims.pop_back();
}

}  // namespace torch_dml_ops
