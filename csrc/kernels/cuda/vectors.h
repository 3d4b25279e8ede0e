// Vectors of 16 bytes in registers: loaded from any address, reversed, stored.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device.h"

namespace torch_dml_ops::cuda {

// What is loaded or stored at once. It holds words and not items, because a compiler that sees bytes takes registers
// apart and puts them together again.
template <int kBytes>
struct AlignedVector {
  uint32_t word[kBytes / 4];
} __attribute__((aligned(kBytes)));

using Vector = AlignedVector<16>;

template <class Item>
constexpr int kItemsPerVector = 16 / int(sizeof(Item));

// The memory that a copy may read.
struct Bounds {
  const char* begin;
  const char* end;
};

// From which offsets, in items, kBytes may be loaded: from those where the one or two aligned vectors of so many bytes
// that hold them lie within the bounds.
template <class Offset>
struct VectorOffsets {
  using Unsigned = std::make_unsigned_t<Offset>;
  Offset first = 0;
  Unsigned count = 0;

  template <int64_t kBytes = sizeof(Vector)>
  static VectorOffsets of(const char* src, const Bounds& bounds, int64_t item_size) {
    const int64_t begin = (int64_t(reinterpret_cast<uintptr_t>(bounds.begin)) + kBytes - 1) / kBytes * kBytes;
    const int64_t last = int64_t(reinterpret_cast<uintptr_t>(bounds.end)) / kBytes * kBytes - kBytes;
    if (last < begin) return {};
    const int64_t first = begin - int64_t(reinterpret_cast<uintptr_t>(src));
    return {Offset(first / item_size), Unsigned((last - begin) / item_size + 1)};
  }
  __device__ bool include(Offset offset) const { return Unsigned(offset) - Unsigned(first) < count; }
};

// Result byte k is byte (selector >> 4 * k) % 8 of high:low.
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k) result |= uint32_t(bytes >> 8 * (selector >> 4 * k & 7) & 0xff) << 8 * k;
  return result;
#endif
}

// The lower 32 bits of high:low shifted right by less than 32.
__device__ __forceinline__ uint32_t funnel_shift(uint32_t low, uint32_t high, uint32_t bits) {
  return uint32_t(((uint64_t(high) << 32) | low) >> bits);
}

// A word whose bits from number `first` on are set: all of them if it is negative, none if it is 32 or more.
__device__ __forceinline__ uint32_t ones_from(int first) {
  const auto bits = uint32_t(std::max(first, 0));
#ifdef __CUDA_ARCH__
  return __funnelshift_lc(0, UINT32_MAX, bits);
#else
  return bits < 32 ? UINT32_MAX << bits : 0;
#endif
}

// The number of the lowest of kBits bits that is set.
template <int kBits>
__device__ __forceinline__ int lowest_bit(uint32_t bits) {
  int lowest = kBits - 1;
#pragma unroll
  for (int k = kBits - 2; k >= 0; --k) lowest = bits >> k & 1 ? k : lowest;
  return lowest;
}

// Items [begin, end) of `inside` and the others of `outside`.
template <class Item, class Offset>
__device__ __forceinline__ Vector select_items(Offset begin, Offset end, const Vector& inside, const Vector& outside) {
  constexpr Offset kItems = kItemsPerVector<Item>;
  constexpr int kBits = 8 * int(sizeof(Item));
  const int first = kBits * int(std::clamp(begin, Offset(0), kItems));
  const int last = kBits * int(std::clamp(end, Offset(0), kItems));
  Vector result;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t mask = ones_from(first - 32 * k) & ~ones_from(last - 32 * k);
    result.word[k] = (inside.word[k] & mask) | (outside.word[k] & ~mask);
  }
  return result;
}

// The same items in reverse order.
template <class Item>
__device__ __forceinline__ Vector reverse_items(const Vector& v) {
  if constexpr (sizeof(Item) == 16) {
    return v;
  } else if constexpr (sizeof(Item) == 8) {
    return {v.word[2], v.word[3], v.word[0], v.word[1]};
  } else {
    constexpr uint32_t kSelector = sizeof(Item) == 4 ? 0x3210 : sizeof(Item) == 2 ? 0x1032 : 0x0123;
    Vector result;
#pragma unroll
    for (int k = 0; k < 4; ++k) result.word[k] = permute_bytes(v.word[3 - k], 0, kSelector);
    return result;
  }
}

// A load of 16 bytes from any multiple of the item's size, as the one or two aligned vectors that hold them. load_from
// only issues the loads; items() waits for them.
template <class Item>
class UnalignedLoad {
 public:
  __device__ void load_from(const Item* items) {
    const char* from = reinterpret_cast<const char*>(items);
    offset_ = uint32_t(reinterpret_cast<uintptr_t>(from) & 15);
    const Vector* aligned = reinterpret_cast<const Vector*>(from - offset_);
    low_ = load(aligned);
    if constexpr (sizeof(Item) < 16)
      if (offset_ != 0) high_ = load(reinterpret_cast<const High*>(aligned + 1));
  }
  __device__ void set_zero() { *this = {}; }

  // The items, in reverse order if `reversed`. They are selected by conditions and not by an index, because registers
  // that are indexed at run time would be placed in local memory.
  __device__ Vector items(bool reversed) const {
    Vector v = low_;
    if (sizeof(Item) < 16 && offset_ != 0) {
      uint32_t word[8] = {};
      memcpy(word, &low_, sizeof(low_));
      memcpy(word + 4, &high_, sizeof(high_));
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
    return v;
  }

 private:
  using High = AlignedVector<sizeof(Item) == 8 ? 8 : 16>;  // an item of 8 bytes needs no more of the second vector

  Vector low_{};
  High high_{};
  uint32_t offset_ = 0;
};

// Stores items [begin, end) of a word: all of them at once, or otherwise those of its halves in turn. `to` is where its
// item 0 would go, an address aligned to the whole word.
template <class Item, class Word, class Offset>
__device__ __forceinline__ void store_items(Item* to, const Word& word, Offset begin, Offset end) {
  constexpr int kItems = sizeof(Word) / sizeof(Item), kHalf = kItems / 2;
  if (begin <= 0 && end >= kItems) {
    store(reinterpret_cast<Word*>(to), word);
  } else if constexpr (kItems > 1) {
    if (begin >= kItems || end <= 0) return;
    using Half =
        std::conditional_t<sizeof(Word) == 8, uint32_t, std::conditional_t<sizeof(Word) == 4, uint16_t, uint8_t>>;
    store_items(to, Half(word), begin, end);
    store_items(to + kHalf, Half(word >> 4 * sizeof(Word)), begin - kHalf, end - kHalf);
  }
}

// The same of a vector.
template <class Item, int kBytes, class Offset>
__device__ __forceinline__ void store_items(Item* to, const AlignedVector<kBytes>& vector, Offset begin, Offset end) {
  constexpr int kItems = kBytes / int(sizeof(Item)), kHalf = kItems / 2;
  if constexpr (kBytes == 4) {
    store_items(to, vector.word[0], begin, end);
  } else if constexpr (kBytes == 8) {
    store_items(to, uint64_t(vector.word[1]) << 32 | vector.word[0], begin, end);
  } else if (begin <= 0 && end >= kItems) {
    store(reinterpret_cast<AlignedVector<kBytes>*>(to), vector);
  } else if constexpr (kItems > 1) {
    if (begin >= kItems || end <= 0) return;
    AlignedVector<kBytes / 2> low, high;
#pragma unroll
    for (int k = 0; k < kBytes / 8; ++k) {
      low.word[k] = vector.word[k];
      high.word[k] = vector.word[k + kBytes / 8];
    }
    store_items(to, low, begin, end);
    store_items(to + kHalf, high, begin - kHalf, end - kHalf);
  }
}

// As many items as a word has, in a word.
template <class Word, class Item, int kItems>
__device__ __forceinline__ Word to_word(const Item (&items)[kItems]) {
  static_assert(sizeof(Word) == kItems * sizeof(Item));
  if constexpr (kItems == 1) {
    return items[0];
  } else {
    Word word = 0;
#pragma unroll
    for (int j = 0; j < kItems; ++j) word |= Word(items[j]) << 8 * int(sizeof(Item)) * j;
    return word;
  }
}

template <class Item, int kItems>
__device__ __forceinline__ auto to_vector(const Item (&items)[kItems]) {
  AlignedVector<kItems* int(sizeof(Item))> vector;
  memcpy(&vector, items, sizeof(vector));
  return vector;
}

// Stores items [begin, end) of a vector, item j being item_at(j): a few at a time, so that their loads overlap; fewer
// with 64-bit offsets, which take twice the registers; and at most 8 bytes, because compilers take wider stores of
// items that are loaded under conditions apart.
template <class Item, int kVecSize, class Offset, class ItemAt>
__device__ __forceinline__ void copy_items(Item* to, Offset begin, Offset end, ItemAt item_at) {
  if constexpr (kVecSize == 1) return store(to, item_at(0));
  constexpr int kGroup = std::clamp(8 / int(sizeof(Item)), 1, sizeof(Offset) == 4 ? 4 : 2);
#pragma unroll 1
  for (int g = 0; g < kVecSize; g += kGroup) {
    Item items[kGroup] = {};
#pragma unroll
    for (int j = 0; j < kGroup; ++j)
      if (g + j >= begin && g + j < end) items[j] = item_at(g + j);
    if constexpr (sizeof(items) < 4)
      store_items(to + g, to_word<uint16_t>(items), begin - g, end - g);
    else
      store_items(to + g, to_vector(items), begin - g, end - g);
  }
}

}  // namespace torch_dml_ops::cuda
