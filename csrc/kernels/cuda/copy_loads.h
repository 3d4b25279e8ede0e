// What copy_vectorized loads for a vector of the destination. load_from only issues the loads; items() waits for them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "vectors.h"

namespace torch_dml_ops::cuda {

// The load of a vector from a row that is contiguous in the source.
template <class Item, bool kWindowed>
class ContiguousLoad {
 public:
  // Only issues the loads. Returns false if the items have to be loaded one by one.
  template <class Params, class Vec>
  __device__ bool load_from(const Params& copy, const Vec& at) {
    constexpr int kVecSize = kItemsPerVector<Item>;
    const auto& inner = copy.dims[Params::kRank - 1];
    auto i = at.i;
    if constexpr (kWindowed) {
      i -= inner.begin;
      if (at.row.outside || i + kVecSize <= 0 || i >= inner.count) {
        vector_.set_zero();
        return true;
      }
    }
    const auto first = at.row.src + (inner.src_stride < 0 ? -i - (kVecSize - 1) : i);
    if (!copy.vector_loads.include(first)) return false;
    vector_.load_from(reinterpret_cast<const Item*>(copy.src) + first);
    return true;
  }
  // `index` is the vector's in its row.
  template <class Params, class Offset>
  __device__ Vector items(const Params& copy, Offset index) const {
    constexpr int kVecSize = kItemsPerVector<Item>;
    const auto& inner = copy.dims[Params::kRank - 1];
    Vector v = vector_.items(inner.src_stride < 0);
    if constexpr (kWindowed) {
      const Offset begin = inner.begin - index, end = begin + inner.count;
      if ((begin > 0 && begin < kVecSize) || (end > 0 && end < kVecSize))
        v = select_items<Item>(begin, end, v, Vector{});
    }
    return v;
  }

 private:
  UnalignedLoad<Item> vector_;
};

// The load of a vector item by item.
template <class Item, int kVecSize>
class StridedLoad {
 public:
  template <class Params, class Vec>
  __device__ bool load_from(const Params& copy, const Vec& at) {
    using Offset = typename Params::Offset;
    const Item* src = reinterpret_cast<const Item*>(copy.src);
    const auto& inner = copy.dims[Params::kRank - 1];
    const auto size = Offset(inner.size.divisor);
    if (kVecSize == 1 || (at.i >= 0 && at.i + kVecSize <= size)) {
      const Item* first = src + (at.row.src + at.i * inner.src_stride);
#pragma unroll
      for (int j = 0; j < kVecSize; ++j) items_[j] = load(first + j * inner.src_stride);
      return true;
    }
    // Unsigned, because offsets of items that are not loaded may overflow.
    using Unsigned = std::make_unsigned_t<Offset>;
    const auto stride = Unsigned(inner.src_stride);
    const auto to_next_row = Unsigned(copy.dims[Params::kRank - 2].src_stride) - Unsigned(size) * stride;
    const auto load_all = [&](auto is_loaded) {
      Offset i = at.i;
      auto from = Unsigned(at.row.src) + Unsigned(i) * stride;
#pragma unroll
      for (int j = 0; j < kVecSize; ++j) {
        if (is_loaded(j)) items_[j] = load(src + Offset(from));
        from += stride;
        if (++i < size) continue;
        i = 0;
        from += to_next_row;
      }
    };
    if (at.index >= 0 && at.index + kVecSize <= copy.vecs.range_size)
      load_all([](int) { return true; });
    else
      load_all([&](int j) { return Unsigned(at.index + j) < Unsigned(copy.vecs.range_size); });
    return true;
  }
  template <class Params, class Offset>
  __device__ auto items(const Params&, Offset) const {
    return to_vector(items_);
  }

 private:
  Item items_[kVecSize] = {};
};

// The same where items at some indices are zero instead.
template <class Item, int kVecSize>
class WindowedStridedLoad {
 public:
  template <class Params, class Vec>
  __device__ bool load_from(const Params& copy, const Vec& at) {
    using Offset = typename Params::Offset;
    const auto& inner = copy.dims[Params::kRank - 1];
    const Offset distance = at.i - inner.begin, count = at.row.outside ? 0 : inner.count;
    const auto step = Offset(inner.step.divisor);
    const Item* src = reinterpret_cast<const Item*>(copy.src);
    using Unsigned = std::make_unsigned_t<Offset>;  // offsets of items that are not loaded may overflow
    Item items[kVecSize] = {};
    if constexpr (sizeof(Item) == 1)
      if (step == 2 && load_every_other(copy, at.row.src, distance, count)) return true;
    if (step == 1) {
#pragma unroll
      for (int j = 0; j < kVecSize; ++j)
        if (Unsigned(distance + j) < Unsigned(count))
          items[j] = load(src + (at.row.src + (distance + j) * inner.src_stride));
      vector_ = to_vector(items);
      return true;
    }
    // Item q of the source's row is item `next` of the vector from a pair on, and no earlier one is.
    Offset q = 0, next = -distance;
    if (distance > 0) {
      const auto [quotient, remainder] = inner.step.divmod(distance);
      q = quotient + (remainder != 0);
      next = remainder != 0 ? step - remainder : 0;
    }
    auto from = Unsigned(at.row.src) + Unsigned(q) * Unsigned(inner.src_stride);
#pragma unroll
    for (int j = 0; j < kVecSize; j += 2) {  // a pair has at most one item of the source
      Item item{};
      if (next < 2 && q < count) item = load(src + Offset(from));
      set_pair(items + j, item, next == 0);
      if (next < 2) {
        ++q;
        from += Unsigned(inner.src_stride);
        next += step;
      }
      next -= 2;
    }
    vector_ = to_vector(items);
    return true;
  }
  template <class Params, class Offset>
  __device__ auto items(const Params&, Offset) const {
    return vector_;
  }

 private:
  // A vector of bytes of which every other one is zero, from a row that is contiguous in the source. Returns false if
  // the bytes have to be loaded one by one.
  template <class Params, class Offset>
  __device__ __forceinline__ bool load_every_other(const Params& copy, Offset row, Offset distance, Offset count) {
    constexpr int kLoaded = kVecSize / 2;
    const Offset first = distance & 1, q = (distance + first) >> 1;  // byte q of the row is byte `first` of the vector
    if (std::max(q, Offset(0)) >= count || q + kLoaded <= 0) return true;
    const bool reversed = copy.dims[Params::kRank - 1].src_stride < 0;
    const Offset from = row + (reversed ? -q - (kVecSize - 1) : q);
    if (!copy.vector_loads.include(from)) return false;
    UnalignedLoad<Item> load;
    load.load_from(reinterpret_cast<const Item*>(copy.src) + from);
    Vector v = load.items(reversed);
    if (q < 0 || count - q < kLoaded) v = select_items<Item>(-q, count - q, v, Vector{});
#pragma unroll
    for (int k = 0; k < 4; ++k)
      vector_.word[k] = permute_bytes(v.word[k / 2], 0, k % 2 == 0 ? 0x4140 : 0x4342) << 8 * int(first);
    return true;
  }

  // `item` and zero.
  __device__ __forceinline__ static void set_pair(Item* pair, const Item& item, bool is_first) {
    if constexpr (sizeof(Item) < 4) {
      constexpr int kBits = 8 * int(sizeof(Item));
      const uint32_t both = is_first ? uint32_t(item) : uint32_t(item) << kBits;
      pair[0] = Item(both);
      pair[1] = Item(both >> kBits);
    } else {
      pair[0] = is_first ? item : Item{};
      if constexpr (kVecSize > 1) pair[1] = is_first ? Item{} : item;
    }
  }

  AlignedVector<kVecSize* int(sizeof(Item))> vector_{};
};

}  // namespace torch_dml_ops::cuda
