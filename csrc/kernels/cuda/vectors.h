// 16 bytes in registers: loaded from any address, turned round, stored.
#pragma once

#include "device.h"

namespace torch_dml_ops::cuda {

struct Vector {
  uint32_t word[4];
} __attribute__((aligned(16)));

// Memory that may be read: all from the first to the last byte of a tensor.
struct Range {
  const char* begin;
  const char* end;

  // Whether the aligned vectors that hold the 16 bytes at an address lie in it whole.
  __device__ bool has_vectors_at(const char* from) const {
    const auto first = reinterpret_cast<uintptr_t>(from) & ~uintptr_t(15);
    const auto last = (reinterpret_cast<uintptr_t>(from) + 15) | 15;
    return first >= reinterpret_cast<uintptr_t>(begin) && last < reinterpret_cast<uintptr_t>(end);
  }
};

// The lower 32 bits of high:low shifted right by less than 32 bits.
__device__ __forceinline__ uint32_t shifted(uint32_t low, uint32_t high, uint32_t bits) {
  return uint32_t(((uint64_t(high) << 32) | low) >> bits);
}

// The 16 bytes at any multiple of kItem bytes, of which the range has the vectors: from the one or two aligned vectors
// that hold them. No register is chosen by an index that is known only at run time: that would put them into memory.
template <int kItem>
__device__ __forceinline__ Vector load_vector(const char* from) {
  const auto offset = uint32_t(reinterpret_cast<uintptr_t>(from) & 15);
  const Vector* aligned = reinterpret_cast<const Vector*>(from - offset);
  const Vector low = load(aligned);
  if (kItem == 16 || offset == 0) return low;
  const Vector high = load(aligned + 1);
  uint32_t word[8];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    word[k] = low.word[k];
    word[k + 4] = high.word[k];
  }
#pragma unroll
  for (int k = 0; k < 6; ++k) word[k] = offset & 8 ? word[k + 2] : word[k];
  if constexpr (kItem < 8) {
#pragma unroll
    for (int k = 0; k < 5; ++k) word[k] = offset & 4 ? word[k + 1] : word[k];
  }
  if constexpr (kItem < 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) word[k] = shifted(word[k], word[k + 1], offset % 4 * 8);
  }
  return {word[0], word[1], word[2], word[3]};
}

// The same items in the other order.
template <int kItem>
__device__ __forceinline__ Vector turned_round(const Vector& v) {
  if constexpr (kItem == 16) {
    return v;
  } else if constexpr (kItem == 8) {
    return {v.word[2], v.word[3], v.word[0], v.word[1]};
  } else {
    Vector result;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint32_t word = v.word[3 - k];
      if constexpr (kItem <= 2) word = word << 16 | word >> 16;
      if constexpr (kItem == 1) word = (word & 0x00ff00ffu) << 8 | (word >> 8 & 0x00ff00ffu);
      result.word[k] = word;
    }
    return result;
  }
}

// kCount items that a thread holds, to be stored as one where all of them are wanted.
template <class Item, int kCount>
struct Items {
  Item item[kCount];
} __attribute__((aligned(sizeof(Item) * kCount)));

template <class Item>
constexpr int kItemsPerVector = 16 / int(sizeof(Item));

template <class Item>
__device__ __forceinline__ Items<Item, kItemsPerVector<Item>> as_items(const Vector& v) {
  Items<Item, kItemsPerVector<Item>> items;
  static_assert(sizeof(items) == sizeof(v));
  memcpy(&items, &v, sizeof(v));
  return items;
}

// Items [begin, end) one by one, item_at(0) being the first of them. Where they are many the loop stays a loop: this is
// for the ends of rows, which are few, or for rows so short that little else would help.
template <class Item, int kCount, class ItemAt>
__device__ __forceinline__ void fill(Items<Item, kCount>& items, int begin, int end, ItemAt item_at) {
  if constexpr (kCount <= 4) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      if (j >= begin && j < end) items.item[j] = item_at(j - begin);
  } else {
#pragma unroll 1
    for (int j = begin; j < end; ++j) {
      const Item item = item_at(j - begin);
#pragma unroll
      for (int k = 0; k < kCount; ++k)
        if (k == j) items.item[k] = item;
    }
  }
}

// The items [begin, end) of the kCount that would lie at `to`, an address that is a multiple of their size together.
template <class Item, int kCount>
__device__ __forceinline__ void store_items(Item* to, const Items<Item, kCount>& items, int begin, int end) {
  if (begin == 0 && end == kCount) {
    store(reinterpret_cast<Items<Item, kCount>*>(to), items);
    return;
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    if (j >= begin && j < end) store(to + j, items.item[j]);
}

}  // namespace torch_dml_ops::cuda
