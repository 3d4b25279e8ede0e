// What plans say, item by item: the reference that the engines are compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../csrc/kernels/affine_copy.h"
#include "../../csrc/kernels/reverse_copy.h"

namespace torch_dml_ops {

// Calls f(index) for every index of a tensor of these sizes.
template <class F>
void for_each_index(const std::vector<int64_t>& sizes, F f) {
  std::vector<int64_t> index(sizes.size());
  for (;;) {
    f(index);
    std::size_t k = sizes.size();
    while (k-- > 0 && ++index[k] == sizes[k]) index[k] = 0;
    if (k == std::size_t(-1)) return;
  }
}

template <class Dims>
std::vector<int64_t> sizes_of(const Dims& dims) {
  std::vector<int64_t> sizes;
  for (const auto& d : dims) sizes.push_back(d.size);
  return sizes;
}

// Calls f(to, from) with the address of each item that is written, and of the one that is written there: null is zero.
template <class F>
void for_each_item(const AffineCopies& plan, F f) {
  for (const AffineCopy& copy : plan.copies)
    for_each_index(sizes_of(copy.dims), [&](const std::vector<int64_t>& index) {
      int64_t to = 0, from = 0;
      bool is_zero = false;
      for (std::size_t k = 0; k < index.size(); ++k) {
        const CopyDim& d = copy.dims[k];
        const int64_t distance = index[k] - d.begin;
        is_zero |= distance < 0 || distance % d.step != 0 || distance / d.step >= d.count;
        to += index[k] * d.dst_stride;
        from += distance / d.step * d.src_stride;
      }
      f(copy.dst + to * plan.item_size, is_zero ? nullptr : copy.src + from * plan.item_size);
    });
}

inline int64_t clamped_length(const ReverseCopy& plan, int64_t at, int64_t most) {
  __int128 length = 0;
  switch (plan.length_type) {
    case LengthType::kInt32:
      length = static_cast<const int32_t*>(plan.lengths)[at];
      break;
    case LengthType::kUInt32:
      length = static_cast<const uint32_t*>(plan.lengths)[at];
      break;
    case LengthType::kInt64:
      length = static_cast<const int64_t*>(plan.lengths)[at];
      break;
    case LengthType::kUInt64:
      length = static_cast<const uint64_t*>(plan.lengths)[at];
      break;
  }
  return int64_t(std::clamp<__int128>(length, 0, most));
}

template <class F>
void for_each_item(const ReverseCopy& plan, F f) {
  const std::size_t axis = plan.axis();
  for_each_index(sizes_of(plan.dims), [&](const std::vector<int64_t>& index) {
    int64_t to = 0, from = 0, length_at = 0;
    for (std::size_t k = 0; k < index.size(); ++k) {
      to += index[k] * plan.dims[k].dst_stride;
      length_at += index[k] * plan.dims[k].length_stride;
    }
    const int64_t length = clamped_length(plan, length_at, plan.dims[axis].size);
    for (std::size_t k = 0; k < index.size(); ++k) {
      const bool reversed = k == axis && index[k] < length;
      from += (reversed ? length - 1 - index[k] : index[k]) * plan.dims[k].src_stride;
    }
    f(plan.dst + to * plan.item_size, plan.src + from * plan.item_size);
  });
}

}  // namespace torch_dml_ops
