// Vectors of 16 bytes in registers: loaded from any address, reversed, stored.
#pragma once

#include "device.h"

namespace torch_dml_ops::cuda {

struct Vector {
  uint32_t word[4];
} __attribute__((aligned(16)));

// Items that are loaded or stored at once.
template <class Item, int kVecSize>
struct AlignedVector {
  Item item[kVecSize];
} __attribute__((aligned(sizeof(Item) * kVecSize)));

template <class Item>
constexpr int kItemsPerVector = 16 / int(sizeof(Item));

// The memory that a copy may read.
struct Bounds {
  const char* begin;
  const char* end;

  // Whether the one or two aligned vectors that hold the 16 bytes at `from` lie within the bounds.
  __device__ bool hold_vectors_at(const char* from) const {
    const auto first = reinterpret_cast<uintptr_t>(from) & ~uintptr_t(15);
    const auto last = (reinterpret_cast<uintptr_t>(from) + 15) | 15;
    return first >= reinterpret_cast<uintptr_t>(begin) && last < reinterpret_cast<uintptr_t>(end);
  }
};

// The lower 32 bits of high:low shifted right by less than 32.
__device__ __forceinline__ uint32_t funnel_shift(uint32_t low, uint32_t high, uint32_t bits) {
  return uint32_t(((uint64_t(high) << 32) | low) >> bits);
}

// The same items in reverse order.
template <class Item>
__device__ __forceinline__ Vector reverse_items(const Vector& v) {
  if constexpr (sizeof(Item) == 16) {
    return v;
  } else if constexpr (sizeof(Item) == 8) {
    return {v.word[2], v.word[3], v.word[0], v.word[1]};
  } else {
    Vector result;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint32_t word = v.word[3 - k];
      if constexpr (sizeof(Item) <= 2) word = word << 16 | word >> 16;
      if constexpr (sizeof(Item) == 1) word = (word & 0x00ff00ffu) << 8 | (word >> 8 & 0x00ff00ffu);
      result.word[k] = word;
    }
    return result;
  }
}

// A load of 16 bytes from any multiple of the item's size, as the one or two aligned vectors that hold them. load_from
// only issues the loads; items() waits for them.
template <class Item>
class UnalignedLoad {
 public:
  __device__ void load_from(const char* from) {
    offset_ = uint32_t(reinterpret_cast<uintptr_t>(from) & 15);
    const Vector* aligned = reinterpret_cast<const Vector*>(from - offset_);
    low_ = load(aligned);
    if constexpr (sizeof(Item) < 16)
      if (offset_ != 0) high_ = load(aligned + 1);
  }
  __device__ void set_zero() { *this = {}; }

  // The items, in reverse order if `reversed`. They are selected by conditions and not by an index, because registers
  // that are indexed at run time would be placed in local memory.
  __device__ AlignedVector<Item, kItemsPerVector<Item>> items(bool reversed) const {
    Vector v = low_;
    if constexpr (sizeof(Item) < 16) {
      uint32_t word[8];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        word[k] = low_.word[k];
        word[k + 4] = high_.word[k];
      }
#pragma unroll
      for (int k = 0; k < 6; ++k) word[k] = offset_ & 8 ? word[k + 2] : word[k];
      if constexpr (sizeof(Item) < 8) {
#pragma unroll
        for (int k = 0; k < 5; ++k) word[k] = offset_ & 4 ? word[k + 1] : word[k];
      }
      if constexpr (sizeof(Item) < 4) {
#pragma unroll
        for (int k = 0; k < 4; ++k) word[k] = funnel_shift(word[k], word[k + 1], offset_ % 4 * 8);
      }
      v = {word[0], word[1], word[2], word[3]};
    }
    if (reversed) v = reverse_items<Item>(v);
    AlignedVector<Item, kItemsPerVector<Item>> result;
    static_assert(sizeof(result) == sizeof(v));
    memcpy(&result, &v, sizeof(v));
    return result;
  }

 private:
  Vector low_{}, high_{};
  uint32_t offset_ = 0;
};

// Stores items [begin, end) of a vector. `to` is where its item 0 would go, an address aligned to the whole vector.
template <class Item, int kVecSize>
__device__ __forceinline__ void store_items(Item* to, const AlignedVector<Item, kVecSize>& items, int begin, int end) {
  if (begin <= 0 && end >= kVecSize) {
    store(reinterpret_cast<AlignedVector<Item, kVecSize>*>(to), items);
    return;
  }
#pragma unroll
  for (int j = 0; j < kVecSize; ++j)
    if (j >= begin && j < end) store(to + j, items.item[j]);
}

// Stores items [begin, end) of a vector, item j being item_at(j - begin): a few at a time, so that their loads overlap.
template <class Item, int kVecSize, class ItemAt>
__device__ __forceinline__ void copy_items(Item* to, int begin, int end, ItemAt item_at) {
  constexpr int kGroup = kVecSize < 4 ? kVecSize : 4;
#pragma unroll 1
  for (int g = begin / kGroup * kGroup; g < end; g += kGroup) {
    AlignedVector<Item, kGroup> items{};
#pragma unroll
    for (int j = 0; j < kGroup; ++j)
      if (g + j >= begin && g + j < end) items.item[j] = item_at(g + j - begin);
    store_items(to + g, items, begin - g, end - g);
  }
}

}  // namespace torch_dml_ops::cuda
