// A batch of affine copies: what slice1, slice_grad, split and join have the engines do, as plain data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_dml_ops {

// One dimension of a copy. Index j of the destination reads index (j - begin) / step of the source where that is a
// whole number in [0, count), and is zero everywhere else. A plain copy reads every index: begin 0, step 1, count size.
// Neither size nor count is 0.
struct CopyDim {
  int64_t size;
  int64_t dst_stride;  // in items; never negative
  int64_t src_stride;  // in items; any sign, 0 for a broadcast source
  int64_t begin;
  int64_t step;  // never negative: a backward walk has a negative src_stride
  int64_t count;

  bool reads_all() const { return begin == 0 && step == 1 && count == size; }
};

inline CopyDim plain_dim(int64_t size, int64_t dst_stride, int64_t src_stride) {
  return {size, dst_stride, src_stride, 0, 1, size};
}

struct AffineCopy {
  char* dst;        // where index 0 of every dimension is written
  const char* src;  // where index 0 of every dimension is read
  std::vector<CopyDim> dims;

  int64_t numel() const {
    int64_t n = 1;
    for (const CopyDim& d : dims) n *= d.size;
    return n;
  }
};

struct AffineCopies {
  int64_t item_size;  // in bytes: 1, 2, 4, 8 or 16
  std::vector<AffineCopy> copies;
};

// The largest power of two, up to `limit`, that divides every one of the numbers seen.
class CommonAlignment {
 public:
  explicit CommonAlignment(int64_t limit) : bits_(uint64_t(limit)) {}
  void include(int64_t number) { bits_ |= uint64_t(number); }
  void include(const void* address) { bits_ |= uint64_t(reinterpret_cast<uintptr_t>(address)); }
  int64_t value() const { return int64_t(1) << std::countr_zero(bits_); }

 private:
  uint64_t bits_;
};

// Items that do not lie at multiples of their own size, as on a foreign buffer they may, are moved in smaller ones that
// do.
inline void align_items(AffineCopies& plan) {
  CommonAlignment aligned(plan.item_size);
  for (const AffineCopy& copy : plan.copies) {
    aligned.include(copy.dst);
    aligned.include(copy.src);
  }
  const int64_t factor = plan.item_size / aligned.value();
  if (factor == 1) return;
  plan.item_size /= factor;
  for (AffineCopy& copy : plan.copies) {
    for (CopyDim& d : copy.dims) {
      d.dst_stride *= factor;
      d.src_stride *= factor;
    }
    copy.dims.push_back(plain_dim(factor, 1, 1));
  }
}

// The same copy with as few dimensions as possible, the one whose writes lie closest together last.
inline void reorder_and_coalesce(AffineCopy& copy) {
  std::vector<CopyDim>& dims = copy.dims;
  std::erase_if(dims, [](const CopyDim& d) { return d.size == 1 && d.begin == 0; });
  for (CopyDim& d : dims)
    if (d.count == 1) d.step = 1, d.src_stride = 0;  // whatever they were: there is one index to read
  std::stable_sort(dims.begin(), dims.end(),
                   [](const CopyDim& a, const CopyDim& b) { return a.dst_stride > b.dst_stride; });
  for (std::size_t k = dims.size(); k-- > 1;) {
    CopyDim& outer = dims[k - 1];
    const CopyDim inner = dims[k];
    if (inner.reads_all() && outer.step == 1 && outer.dst_stride == inner.size * inner.dst_stride &&
        (outer.count == 1 || outer.src_stride == inner.size * inner.src_stride)) {
      outer = {outer.size * inner.size, inner.dst_stride, inner.src_stride, outer.begin * inner.size, 1,
               outer.count * inner.size};
      dims.erase(dims.begin() + std::ptrdiff_t(k));
    }
  }
}

constexpr int64_t kMaxItemBytes = 16;  // bytes: the widest load and store of both engines

// How many items of a coalesced copy can be moved as one item of at most kMaxItemBytes, 1 if none. With `aligned`,
// every wide item must lie at a multiple of its own size, as GPUs require.
inline int64_t max_vec_size(const AffineCopy& copy, int64_t item_size, bool aligned) {
  if (copy.dims.empty()) return 1;
  const CopyDim& inner = copy.dims.back();
  if (inner.dst_stride != 1 || inner.src_stride != 1 || inner.step != 1) return 1;
  CommonAlignment vec(kMaxItemBytes);
  for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k) {
    vec.include(copy.dims[k].dst_stride * item_size);
    vec.include(copy.dims[k].src_stride * item_size);
  }
  for (const int64_t extent : {inner.size, inner.begin, inner.count}) vec.include(extent * item_size);
  if (aligned) {
    vec.include(copy.dst);
    vec.include(copy.src);
  }
  return std::max<int64_t>(vec.value() / item_size, 1);
}

// The same copy in items `vec_size` times as wide, `vec_size` being a divisor of max_vec_size.
inline void vectorize(AffineCopy& copy, int64_t vec_size) {
  if (vec_size == 1) return;
  for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k) {
    copy.dims[k].dst_stride /= vec_size;
    copy.dims[k].src_stride /= vec_size;
  }
  CopyDim& inner = copy.dims.back();
  inner.size /= vec_size;
  inner.begin /= vec_size;
  inner.count /= vec_size;
  if (inner.size == 1 && inner.begin == 0) copy.dims.pop_back();
}

}  // namespace torch_dml_ops
