// Affine copies on a GPU: all copies of a plan in one launch, or a few if there are very many.
//
// copy_vectorized, for most copies:
//   vector  16 aligned bytes of the destination (fewer with a strided source), written by one store
//   thread  up to 4 vectors of a chunk, 256 apart, so that neighbouring threads store neighbouring vectors
//   chunk   up to 256 · 4 vectors of one copy; a block takes every gridDim.x-th chunk of all copies
//
// copy_line, for large copies of one dimension whose destination has gaps, or whose items of less than 4 bytes do in
// the source:
//   vector  4 items of a destination without gaps, or a single item
//   thread  16 items of a chunk, in vectors that are 256 apart; a block takes every gridDim.x-th chunk of all copies
//
// copy_tiled, where the source is contiguous along another dimension than the destination:
//   tile    32 × 32 items (64 × 64 of less than 4 bytes) of these two dimensions, transposed in shared memory; or two
//           of half as many rows, side by side
//   word    an item, or as many as fill 4 bytes, if alignment allows it
//   thread  4 to 16 words of a tile; a block takes every gridDim.x-th tile
#include "../affine_copy.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "dims.h"
#include "launch.h"
#include "vec_partition.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {
namespace {

template <class Offset>
struct Dim {
  FastDivmod<Offset> size;
  Offset dst_stride, src_stride;
};

template <class Offset>
struct WindowDim : Dim<Offset> {
  Offset begin, count;
  FastDivmod<Offset> step;
};

// How the items of most copies are accessed, where a row is what lies along the last dimension.
enum class AccessPattern {
  kContiguous,       // rows of the source vector by vector, forwards or backwards
  kStrided,          // rows item by item into vectors
  kStridedWide,      // as kStrided, into wider vectors
  kWindowed,         // as kContiguous, but some indices are zero instead
  kWindowedStrided,  // as kStrided, but some indices are zero instead
  kTiled,            // in tiles, item by item
  kTiledWords,       // in tiles, several items at a time
  kLine,             // as kStrided, but there is one row
  kLineWithGaps,     // item by item, along the only dimension
};

constexpr bool is_windowed(AccessPattern access) {
  return access == AccessPattern::kWindowed || access == AccessPattern::kWindowedStrided;
}
constexpr bool is_line(AccessPattern access) {
  return access == AccessPattern::kLine || access == AccessPattern::kLineWithGaps;
}
constexpr bool is_tiled(AccessPattern access) {
  return access == AccessPattern::kTiled || access == AccessPattern::kTiledWords;
}

template <class Item, AccessPattern kAccess>
constexpr int kVecSizeOf = [] {
  using enum AccessPattern;
  constexpr int kItems = kItemsPerVector<Item>;
  switch (kAccess) {
    case kContiguous:
    case kWindowed:
      return kItems;
    case kStridedWide:
      return std::min(8, kItems);
    case kWindowedStrided:
      return sizeof(Item) < 4 ? kItems : std::min(4, kItems);
    case kLineWithGaps:
      return 1;
    default:
      return std::min(4, kItems);
  }
}();

// How many vectors of a chunk a thread moves in copy_vectorized: fewer with more than 4 items that are loaded one by
// one, each into a register.
template <class Item, class Offset, AccessPattern kAccess>
constexpr int kVecsOf =
    kAccess == AccessPattern::kContiguous || kAccess == AccessPattern::kWindowed || kVecSizeOf<Item, kAccess> <= 4
        ? kVecsPerThread<Offset>
        : std::max(kVecsPerThread<Offset> / 2, 1);

// How many items of a chunk a thread moves in copy_line.
constexpr int kItemsPerThread = 16;

// How many tiles lie along the last two dimensions.
template <class Offset>
struct TilePartition {
  FastDivmod<Offset> column_tiles, row_tiles;
  int16_t lead;   // how many items before the first row the words of the source begin
  int16_t folds;  // 1 if there are so few rows that a tile is two of half as many, side by side; or 0
};

// Where an item lies in destination and source, in items.
template <class Offset>
struct CopyOffsets {
  Offset dst = 0, src = 0;
  bool outside = false;  // of the window: it is zero and reads nothing
};

// One copy. If it has fewer than kRank dimensions, the outermost have size 1.
template <class OffsetOf, int kRankOf, AccessPattern kAccess>
struct CopyParams {
  static constexpr int kRank = kRankOf;
  static constexpr bool kWindowed = is_windowed(kAccess);
  using Offset = OffsetOf;
  using Offsets = CopyOffsets<Offset>;

  char* dst;
  const char* src;
  union {
    VecPartition<Offset> vecs;
    TilePartition<Offset> tiles;
  };
  VectorOffsets<Offset> vector_loads;  // none if the items of rows do not follow one another
  uint32_t first_chunk;
  std::conditional_t<kWindowed, WindowDim<Offset>, Dim<Offset>> dims[kRank];

  // Unravels the linear index `index` over dims [0, kDims) and adds the offsets.
  template <int kDims>
  __device__ __forceinline__ void add_offsets(Offset index, Offsets& offsets) const {
#pragma unroll
    for (int k = kDims - 1; k >= 0; --k) {
      const Offset j = take_index(index, dims[k].size, k == 0);
      const auto& dim = dims[k];
      offsets.dst += j * dim.dst_stride;
      if constexpr (kWindowed) {
        const Offset distance = j - dim.begin;
        const Offset q = dim.step.div(distance);  // anything if negative
        const bool outside = distance < 0 || q * Offset(dim.step.divisor) != distance || q >= dim.count;
        offsets.outside |= outside;
        if (!outside) offsets.src += q * dim.src_stride;  // outside, it could overflow
      } else {
        offsets.src += j * dim.src_stride;
      }
    }
  }
  __device__ __forceinline__ void add_row_offsets(Offset row, Offsets& offsets) const {
    add_offsets<kRank - 1>(row, offsets);
  }
};

// Chunk `number` of one of the copies of a launch.
template <class Params>
struct Chunk {
  const Params& copy;
  uint32_t number;
};

// The copies of a launch, passed as the kernel's parameter.
template <class Params, int kMaxCopies>
struct CopyBatch {
  uint32_t chunks;     // of all copies
  int vecs_per_chunk;  // or one tile
  int copies;
  // Whether all copies have the same number of chunks. If so, successive chunks belong to successive copies:
  // neighbouring memory is then accessed at about the same time, and a sector with items of several copies moves once.
  bool same_chunks;
  FastDivmod<int32_t> by_copy;
  Params copy[kMaxCopies];

  __device__ Chunk<Params> chunk(uint32_t chunk) const {
    if constexpr (kMaxCopies == 1) return {copy[0], chunk};
    if (same_chunks) {
      const auto number = uint32_t(by_copy.div(int32_t(chunk)));
      return {copy[chunk - number * by_copy.divisor], number};
    }
    int first = 0, last = copies - 1;  // binary search among these
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (copy[middle].first_chunk <= chunk)
        first = middle;
      else
        last = middle - 1;
    }
    return {copy[first], chunk - copy[first].first_chunk};
  }
};

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

// The same where some indices are zero instead.
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

template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    copy_vectorized(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>, kVecs = kVecsOf<Item, Offset, kAccess>;
  constexpr bool kWindowed = is_windowed(kAccess);
  constexpr bool kContiguous = kAccess == AccessPattern::kContiguous || kAccess == AccessPattern::kWindowed;
  constexpr bool kMaySpanRows = !kContiguous && !kWindowed;
  using OneByOne = std::conditional_t<kWindowed, WindowedStridedLoad<Item, kVecSize>, StridedLoad<Item, kVecSize>>;
  using Load = std::conditional_t<kContiguous, ContiguousLoad<Item, kWindowed>, OneByOne>;
  const auto locate_vec = [](const auto& copy, Offset number) {
    return locate<Item, kVecSize, kMaySpanRows>(copy, number);
  };
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [copy, number] = batch.chunk(chunk);
    const Offset chunk_begin = Offset(number) * batch.vecs_per_chunk, first = chunk_begin + Offset(threadIdx.x);
    const Offset end = std::min(chunk_begin + batch.vecs_per_chunk, copy.vecs.count);
    const Offset range_size = copy.vecs.range_size;
    Item* dst = reinterpret_cast<Item*>(copy.dst);
    Load loads[kVecs];
    Offset at[kVecs] = {}, index[kVecs] = {};
    uint32_t remaining = 0;  // a bit for each vector
#pragma unroll
    for (int u = 0; u < kVecs; ++u) {
      index[u] = range_size;  // nothing to store
      if (first + u * kThreadsPerBlock >= end) continue;
      const auto v = locate_vec(copy, first + u * kThreadsPerBlock);
      if (kVecSize > 1 && v.index >= range_size) continue;
      if (loads[u].load_from(copy, v)) {
        at[u] = v.dst();
        index[u] = v.index;
      } else {
        remaining |= 1u << u;
      }
    }
#pragma unroll
    for (int u = 0; u < kVecs; ++u)
      store_items(dst + at[u], loads[u].items(copy, index[u]), -index[u], range_size - index[u]);
    // Vectors at the ends of the source's memory, and rows that are not contiguous.
    if constexpr (kContiguous) {
#pragma unroll 1
      for (; remaining != 0; remaining &= remaining - 1) {
        const int u = lowest_bit<kVecs>(remaining);
        const auto v = locate_vec(copy, first + u * kThreadsPerBlock);
        copy_items<Item, kVecSize>(dst + v.dst(), -v.index, range_size - v.index, [&, &copy = copy](int j) {
          const auto& inner = copy.dims[kRank - 1];
          Offset i = v.i + j;
          if constexpr (kWindowed) {
            i -= inner.begin;
            if (v.row.outside || i < 0 || i >= inner.count) return Item{};
          }
          return load(reinterpret_cast<const Item*>(copy.src) + (v.row.src + i * inner.src_stride));
        });
      }
    }
  }
}

// Every copy has one dimension.
template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    copy_line(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  static_assert(kRank == 1);
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>, kVecs = kItemsPerThread / kVecSize;
  constexpr int kStep = kThreadsPerBlock * kVecSize;  // from one vector of a thread to the next, in items
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [copy, number] = batch.chunk(chunk);
    const auto& dim = copy.dims[0];
    const Offset first = Offset(number) * (kStep * kVecs) + Offset(threadIdx.x) * kVecSize;
    const Offset left = Offset(dim.size.divisor) - first;
    if (left <= 0) continue;
    const Item* src = reinterpret_cast<const Item*>(copy.src) + first * dim.src_stride;
    Item* dst = reinterpret_cast<Item*>(copy.dst) + first * dim.dst_stride;
    const auto src_stride = int64_t(dim.src_stride), dst_stride = int64_t(dim.dst_stride);
    const int64_t src_step = kStep * src_stride, dst_step = kStep * dst_stride;
    if (left >= kStep * (kVecs - 1) + kVecSize) {
      Item items[kVecs][kVecSize];
#pragma unroll
      for (int k = 0; k < kVecs; ++k)
#pragma unroll
        for (int j = 0; j < kVecSize; ++j) items[k][j] = load(src + k * src_step + j * src_stride);
#pragma unroll
      for (int k = 0; k < kVecs; ++k) {
        if constexpr (kVecSize == 1) {
          store(dst + k * dst_step, items[k][0]);
        } else {
          const auto vector = to_vector(items[k]);
          store(reinterpret_cast<std::remove_const_t<decltype(vector)>*>(dst + k * kStep), vector);
        }
      }
    } else {
#pragma unroll 1
      for (int k = 0; k < kVecs; ++k)
#pragma unroll 1
        for (int j = k * kStep; j < k * kStep + kVecSize && j < left; ++j)
          store(dst + j * dst_stride, load(src + j * src_stride));
    }
  }
}

// A tile's side in items: a row of a tile is a whole number of the 32-byte sectors in which GPUs access memory.
template <class Item>
constexpr int kTileSide = sizeof(Item) < 4 ? 64 : 32;

template <class Item>
constexpr int kItemsPerWord = std::max(4 / int(sizeof(Item)), 1);

// Transposes a square of 2 × 2 items of 2 bytes, or of 4 × 4 bytes.
__device__ __forceinline__ void transpose(uint32_t (&rows)[2]) {
  const uint32_t first = permute_bytes(rows[0], rows[1], 0x5410);
  rows[1] = permute_bytes(rows[0], rows[1], 0x7632);
  rows[0] = first;
}
__device__ __forceinline__ void transpose(uint32_t (&rows)[4]) {
  uint32_t left[2] = {permute_bytes(rows[0], rows[1], 0x5140), permute_bytes(rows[2], rows[3], 0x5140)};
  uint32_t right[2] = {permute_bytes(rows[0], rows[1], 0x7362), permute_bytes(rows[2], rows[3], 0x7362)};
  transpose(left);
  transpose(right);
  rows[0] = left[0], rows[1] = left[1], rows[2] = right[0], rows[3] = right[1];
}
template <class Item>
__device__ __forceinline__ void transpose(Item (&)[1]) {}

// Items [begin, end) of a word, loaded one by one.
template <class Word, class Item>
__device__ Word load_items(const Item* from, int begin, int end) {
  constexpr int kItems = sizeof(Word) / sizeof(Item);
  Item items[kItems] = {};
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    if (k >= begin && k < end) items[k] = load(from + k);
  return to_word<Word>(items);
}

// The destination is contiguous along the last dimension, the source along the last but one.
template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    copy_tiled(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  constexpr int kPerWord = kAccess == AccessPattern::kTiledWords ? kItemsPerWord<Item> : 1;
  using Word = std::conditional_t<kPerWord == 1, Item, uint32_t>;
  constexpr int kSide = kTileSide<Item>, kWords = kSide / kPerWord, kRowsPerStep = kThreadsPerBlock / kWords;
  constexpr int kLoads = kWords / kRowsPerStep, kStores = kSide / kRowsPerStep;
  constexpr int kPadding = sizeof(Word) < 4 ? 4 / int(sizeof(Word)) : 1;  // puts a column into different banks
  __shared__ Word tile[kSide][kWords + kPadding];
  const int x = int(threadIdx.x) % kWords * kPerWord, y = int(threadIdx.x) / kWords;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [copy, tile_number] = batch.chunk(chunk);
    const auto& column = copy.dims[kRank - 1];
    const auto& row = copy.dims[kRank - 2];
    const TilePartition<Offset>& tiles = copy.tiles;
    const auto [tile_row, tile_column] = tiles.column_tiles.divmod(Offset(tile_number));
    const auto [outer, outer_row] = tiles.row_tiles.divmod(tile_row);
    const int lead = kPerWord > 1 ? tiles.lead : 0, folds = kPerWord > 1 ? tiles.folds : 0;
    const Offset first_column = tile_column * (kSide << folds), first_row = outer_row * kSide - lead;
    const Offset columns_left = Offset(column.size.divisor) - first_column;
    const Offset rows_left = Offset(row.size.divisor) - first_row;
    const int columns = columns_left < 2 * kSide ? int(columns_left) : 2 * kSide;
    const int begin = first_row < 0 ? -int(first_row) : 0, rows = rows_left < kSide ? int(rows_left) : kSide;
    CopyOffsets<Offset> at{first_column * column.dst_stride + first_row * row.dst_stride,
                           first_column * column.src_stride + first_row * row.src_stride};
    copy.template add_offsets<kRank - 2>(outer, at);
    // Word j of a square of kPerWord × kPerWord items lies in the source's row of column kPerWord · y + j, and one more
    // side of a tile along in the second half of a tile of two.
    const int folded = x >= kSide / 2 ? folds : 0;
    const int first_load = kPerWord * y + folded * kSide, load_row = x - folded * (kSide / 2);
    const Offset from = at.src + first_load * column.src_stride + load_row * row.src_stride;
    const auto src_stride = int64_t(column.src_stride);
    const Item* src = reinterpret_cast<const Item*>(copy.src) + from;
    const int loads = load_row < rows ? columns - first_load : 0;  // columns from the thread's first one on
    Word words[kLoads][kPerWord] = {};
    if (kPerWord == 1 || loads <= 0 ||
        (copy.vector_loads.include(from) &&
         copy.vector_loads.include(from + std::min(loads - 1, kSide - 1) * column.src_stride))) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u, src += kPerWord * (kRowsPerStep - 1) * src_stride)
#pragma unroll
        for (int j = 0; j < kPerWord; ++j, src += src_stride)
          if (kPerWord * u * kRowsPerStep < loads) words[u][j] = load(reinterpret_cast<const Word*>(src));
    } else {  // words at the ends of the source's memory
#pragma unroll
      for (int u = 0; u < kLoads; ++u, src += kPerWord * (kRowsPerStep - 1) * src_stride)
#pragma unroll
        for (int j = 0; j < kPerWord; ++j, src += src_stride)
          if (kPerWord * u * kRowsPerStep < loads)
            words[u][j] = load_items<Word>(src, begin - load_row, rows - load_row);
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      transpose(words[u]);
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) tile[x + j][y + u * kRowsPerStep] = words[u][j];
    }
    __syncthreads();
    const auto dst_stride = int64_t(row.dst_stride);
    Item* dst = reinterpret_cast<Item*>(copy.dst) + at.dst + x * column.dst_stride + y * row.dst_stride;
    int row_at = y, column_at = x;
#pragma unroll
    for (int u = 0; u < kStores; ++u) {
      if (kPerWord > 1 && u == kStores / 2 && folds) {
        dst += kSide - kSide / 2 * dst_stride;
        row_at -= kSide / 2;
        column_at += kSide;
      }
      if (column_at < columns && row_at < rows && (kPerWord == 1 || row_at >= begin))
        store(reinterpret_cast<Word*>(dst), tile[y + u * kRowsPerStep][x / kPerWord]);
      dst += kRowsPerStep * dst_stride;
      row_at += kRowsPerStep;
    }
    __syncthreads();
  }
}

// Copies that one kernel executes, in one launch or more.
struct CopyLaunches {
  std::vector<AffineCopy> copies;
  int64_t item_size;
  AccessPattern access;
  std::size_t rank;
  int64_t max_index;  // of all copies, as index_bound says
  Stream stream;
};

template <class Item, AccessPattern kAccess, class Params>
int64_t partition_into_tiles(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  constexpr int64_t kItemBytes = sizeof(Item), kWordBytes = 4;
  const auto tiles = [](int64_t size) { return (size + kTileSide<Item> - 1) / kTileSide<Item>; };
  const int64_t size = copy.dims.back().size, row_size = copy.dims[copy.dims.size() - 2].size;
  int64_t lead = 0;
  if constexpr (kAccess == AccessPattern::kTiledWords) {
    lead = int64_t(reinterpret_cast<uintptr_t>(copy.src) % kWordBytes) / kItemBytes;
    const Bounds bounds = source_bounds(copy.src, copy.dims, kItemBytes);
    params.vector_loads = VectorOffsets<Offset>::template of<kWordBytes>(copy.src, bounds, kItemBytes);
  }
  const bool folds = kAccess == AccessPattern::kTiledWords && lead + row_size <= kTileSide<Item> / 2;
  const int64_t column_tiles = folds ? tiles((size + 1) / 2) : tiles(size), row_tiles = tiles(lead + row_size);
  params.tiles = {FastDivmod<Offset>(column_tiles), FastDivmod<Offset>(row_tiles), int16_t(lead), int16_t(folds)};
  return numel(copy.dims) / (size * row_size) * column_tiles * row_tiles;
}

template <class Item, AccessPattern kAccess, class Params>
int64_t partition_into_vectors(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>;
  constexpr bool kMaySpanRows = kAccess == AccessPattern::kStrided || kAccess == AccessPattern::kStridedWide;
  params.vecs = VecPartition<Offset>::template of<Item, kVecSize>(copy.dst, copy.dims, kMaySpanRows);
  if (const int64_t stride = copy.dims.back().src_stride; stride == 1 || stride == -1) {
    const Bounds bounds = source_bounds(copy.src, copy.dims, int64_t(sizeof(Item)));
    params.vector_loads = VectorOffsets<Offset>::of(copy.src, bounds, int64_t(sizeof(Item)));
  }
  return int64_t(params.vecs.count);
}

template <class Params>
void set_dims(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  const int padding = Params::kRank - int(copy.dims.size());
  int k = 0;
  for (auto& to : params.dims) {
    const CopyDim dim = k < padding ? plain_dim(1, 0, 0) : copy.dims[std::size_t(k - padding)];
    ++k;
    to.size = FastDivmod<Offset>(dim.size);
    to.dst_stride = Offset(dim.dst_stride);
    to.src_stride = Offset(dim.src_stride);
    if constexpr (requires { to.step; }) {
      to.begin = Offset(dim.begin);
      to.count = Offset(dim.count);
      to.step = FastDivmod<Offset>(dim.step);
    }
  }
}

template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
void launch_batches(const CopyLaunches& launches) {
  CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch;
  batch.copies = 0;
  batch.chunks = 0;
  batch.same_chunks = true;
  int64_t vecs = 0;
  for (const AffineCopy& copy : launches.copies) vecs += numel(copy.dims) / kVecSizeOf<Item, kAccess>;
  batch.vecs_per_chunk = is_tiled(kAccess)  ? 1
                         : is_line(kAccess) ? kThreadsPerBlock * kItemsPerThread
                                            : vecs_per_chunk(vecs, kVecsOf<Item, Offset, kAccess>);
  for (std::size_t c = 0; c < launches.copies.size(); ++c) {
    const AffineCopy& copy = launches.copies[c];
    auto& params = batch.copy[batch.copies++];
    params = {};
    params.dst = copy.dst;
    params.src = copy.src;
    params.first_chunk = batch.chunks;
    set_dims(copy, params);
    int64_t units = 0;
    if constexpr (is_tiled(kAccess))
      units = partition_into_tiles<Item, kAccess>(copy, params);
    else if constexpr (is_line(kAccess))
      units = numel(copy.dims);
    else
      units = partition_into_vectors<Item, kAccess>(copy, params);
    const int64_t chunks = (units + batch.vecs_per_chunk - 1) / batch.vecs_per_chunk;
    batch.chunks = checked_chunks(batch.chunks + chunks);
    batch.same_chunks = batch.same_chunks && batch.chunks == batch.copies * chunks;
    batch.by_copy = FastDivmod<int32_t>(batch.copies);
    if (batch.copies < kMaxCopies && c + 1 < launches.copies.size()) continue;
    if constexpr (is_tiled(kAccess))
      launch<copy_tiled<Item, Offset, kRank, kAccess, kMaxCopies>>("copy_tiled", grid_size(batch.chunks),
                                                                   kThreadsPerBlock, launches.stream, batch);
    else if constexpr (is_line(kAccess))
      launch<copy_line<Item, Offset, kRank, kAccess, kMaxCopies>>("copy_line", grid_size(batch.chunks),
                                                                  kThreadsPerBlock, launches.stream, batch);
    else
      launch<copy_vectorized<Item, Offset, kRank, kAccess, kMaxCopies>>("copy_vectorized", grid_size(batch.chunks),
                                                                        kThreadsPerBlock, launches.stream, batch);
    batch.copies = 0;
    batch.chunks = 0;
    batch.same_chunks = true;
  }
}

// Kernels exist for one copy, whose parameters are quick to send to the GPU, for as many as fit into the parameters
// that any driver allows, and for as many as newer drivers allow.
template <class Item, class Offset, int kRank, AccessPattern kAccess>
void launch_access(const CopyLaunches& launches) {
  using Params = CopyParams<Offset, kRank, kAccess>;
  constexpr std::size_t kFixedBytes = sizeof(CopyBatch<Params, 1>) - sizeof(Params);
  constexpr int kFew = int((kMaxParameterBytes - kFixedBytes) / sizeof(Params));
  constexpr int kMany = int((kMaxLargeParameterBytes - kFixedBytes) / sizeof(Params));
  const auto copies = int64_t(launches.copies.size());
  // Several copies with windows occur only where a copy with too many dimensions was split: one launch each will do.
  if constexpr (is_line(kAccess)) {
    return launch_batches<Item, Offset, kRank, kAccess, kFew>(launches);
  } else {
    if constexpr (!is_windowed(kAccess)) {
      // Many copies in tiles or with more dimensions are too rare for kernels of their own.
      if constexpr (kRank == int(kMatrixRank))
        if (copies > kFew && limits().large_kernel_parameters)
          return launch_batches<Item, Offset, kRank, kAccess, kMany>(launches);
      if (copies > 1) return launch_batches<Item, Offset, kRank, kAccess, kFew>(launches);
    }
    launch_batches<Item, Offset, kRank, kAccess, 1>(launches);
  }
}

template <class Item, class Offset, int kRank>
void launch_copies(const CopyLaunches& launches) {
  using enum AccessPattern;
  const auto try_access = [&]<AccessPattern kAccess>() {
    if (launches.access == kAccess) launch_access<Item, Offset, kRank, kAccess>(launches);
  };
  try_access.template operator()<kStrided>();
  if constexpr (sizeof(Item) < 4 && sizeof(Offset) == 4) try_access.template operator()<kStridedWide>();
  try_access.template operator()<kWindowedStrided>();
  if constexpr (sizeof(Item) < kMaxItemBytes) {
    try_access.template operator()<kContiguous>();
    try_access.template operator()<kWindowed>();
  }
  if constexpr (kRank >= int(kSmallRank)) try_access.template operator()<kTiled>();
  if constexpr (kRank == int(kSmallRank) && kItemsPerWord<Item> > 1) try_access.template operator()<kTiledWords>();
}

// The pattern that suits most items of the copies.
AccessPattern access_pattern(const std::vector<AffineCopy>& copies, int64_t item_size) {
  bool windowed = false, steps = false;
  int64_t contiguous = 0, strided = 0;
  for (const AffineCopy& copy : copies) {
    windowed =
        windowed || !std::all_of(copy.dims.begin(), copy.dims.end(), [](const CopyDim& d) { return d.reads_all(); });
    // In short rows most vectors would be partial: in those of less than two vectors or, of items of one byte, less
    // than one and a half, except for whole ones. An item of 16 bytes is a vector by itself.
    const CopyDim& row = copy.dims.back();
    const int64_t bytes = row.size * item_size;
    const bool is_long =
        bytes >= 2 * kMaxItemBytes || (item_size == 1 && (bytes >= kMaxItemBytes * 3 / 2 || bytes == kMaxItemBytes));
    const bool is_contiguous = std::abs(row.src_stride) == 1 && item_size < kMaxItemBytes && is_long;
    steps = steps || row.step != 1;
    (is_contiguous ? contiguous : strided) += numel(copy.dims);
  }
  using enum AccessPattern;
  if (contiguous > strided && !steps) return windowed ? kWindowed : kContiguous;
  return windowed ? kWindowedStrided : kStrided;
}

// Chooses copy_line where it can execute all copies and they are large enough for each SM to get a chunk. (An item of
// 16 bytes is a vector by itself, and of 4 bytes vectors are quick enough.)
void try_lines(CopyLaunches& launches) {
  if (launches.item_size >= kMaxItemBytes) return;
  bool gaps = true;
  int64_t items = 0;
  CommonAlignment vec(4 * launches.item_size);
  for (const AffineCopy& copy : launches.copies) {
    gaps = gaps && copy.dims.size() == 2 && copy.dims.back().size == 1;
    vec.include(copy.dst);
    vec.include(copy.dims.size() == 1 && launches.item_size < 4 ? 0 : 1);
    items += numel(copy.dims);
  }
  if (items < limits().sm_count * kThreadsPerBlock * kItemsPerThread) return;
  if (gaps) {
    launches.access = AccessPattern::kLineWithGaps;
    for (AffineCopy& copy : launches.copies) copy.dims.pop_back();
  } else if (vec.value() == 4 * launches.item_size) {
    launches.access = AccessPattern::kLine;
  }
}

// Chooses wider vectors for items of less than 4 bytes where few vectors are partial: in long rows, and in rows that
// follow one another in the destination.
void try_wide_vectors(CopyLaunches& launches) {
  constexpr int64_t kLong = 64;
  const auto suits = [](const AffineCopy& copy) {
    const CopyDim& row = copy.dims.back();
    return row.size >= kLong || copy.dims.size() == 1 || copy.dims[copy.dims.size() - 2].dst_stride == row.size;
  };
  if (launches.item_size < 4 && std::all_of(launches.copies.begin(), launches.copies.end(), suits))
    launches.access = AccessPattern::kStridedWide;
}

// Moves the dimension along which the source is contiguous next to the last one, along which the destination is.
// Returns false if there is none, or if one of the two is too short for tiles.
bool arrange_tiles(AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kMinSize = 8, kSectorBytes = 32;
  auto& dims = copy.dims;
  if (dims.size() < 2 || dims.back().size < kMinSize || std::abs(dims.back().src_stride) * item_size < kSectorBytes)
    return false;
  const auto row = std::find_if(dims.begin(), dims.end() - 1, [&](const CopyDim& d) {
    return d.size >= kMinSize && (d.src_stride == 1 || d.src_stride == -1);
  });
  if (row == dims.end() - 1) return false;
  std::rotate(row, row + 1, dims.end() - 1);
  return true;
}

// Whether tiles can be moved in words of 4 bytes: if no word of the destination is cut by an end or lies across an
// unaligned address, and all rows of the source run forwards and begin equally far past an aligned address.
bool tiles_have_words(const AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kWordBytes = 4;
  const std::size_t column = copy.dims.size() - 1, row = column - 1;
  CommonAlignment word(kWordBytes);
  word.include(copy.dst);
  word.include(copy.dims[column].size * item_size);
  for (std::size_t k = 0; k <= column; ++k) {
    if (k != column) word.include(copy.dims[k].dst_stride * item_size);
    if (k != row) word.include(copy.dims[k].src_stride * item_size);
  }
  return item_size < kWordBytes && word.value() == kWordBytes && copy.dims[row].src_stride == 1;
}

}  // namespace

void execute(AffineCopies plan, Stream stream) {
  align_items(plan);
  int64_t vec_size = kMaxItemBytes;
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    vec_size = std::min(vec_size, max_vec_size(copy.dims, plan.item_size, copy.dst, copy.src));
  }
  CopyLaunches launches{{}, plan.item_size * vec_size, AccessPattern::kStrided, 0, 0, stream};
  for (AffineCopy& copy : plan.copies) {
    vectorize(copy.dims, vec_size);
    if (copy.dims.empty() || copy.dims.back().dst_stride != 1) copy.dims.push_back(plain_dim(1, 1, 1));
    split_outer_dims(copy, launches.item_size, [&](const AffineCopy& part) { launches.copies.push_back(part); });
  }
  for (const AffineCopy& copy : launches.copies) {
    launches.max_index = std::max(launches.max_index, index_bound(copy.dims));
    launches.rank = std::max(launches.rank, copy.dims.size());
  }
  const bool fits_32_bits = launches.max_index <= max_32_bit_index() && launches.rank <= kSmallRank;
  launches.access = access_pattern(launches.copies, launches.item_size);
  if (launches.access == AccessPattern::kStrided && fits_32_bits) try_lines(launches);
  if (launches.access == AccessPattern::kStrided) {
    std::vector<AffineCopy> arranged = launches.copies;
    const auto all = [&](auto condition) { return std::all_of(arranged.begin(), arranged.end(), condition); };
    if (all([&](AffineCopy& copy) { return arrange_tiles(copy, launches.item_size); })) {
      const bool words =
          fits_32_bits && all([&](AffineCopy& copy) { return tiles_have_words(copy, launches.item_size); });
      launches.access = words ? AccessPattern::kTiledWords : AccessPattern::kTiled;
      launches.copies = std::move(arranged);
    }
  }
  if (launches.access == AccessPattern::kStrided && fits_32_bits) try_wide_vectors(launches);
  dispatch_item_size(launches.item_size, [&](auto item) {
    using Item = decltype(item);
    if constexpr (sizeof(Item) < kMaxItemBytes)
      if (launches.access == AccessPattern::kLineWithGaps)
        return launch_access<Item, int32_t, 1, AccessPattern::kLineWithGaps>(launches);
    if constexpr (sizeof(Item) < 4)
      if (launches.access == AccessPattern::kLine)
        return launch_access<Item, int32_t, 1, AccessPattern::kLine>(launches);
    if (!fits_32_bits)
      launch_copies<Item, int64_t, int(kMaxRank)>(launches);
    else if (launches.rank > kMatrixRank || is_tiled(launches.access))
      launch_copies<Item, int32_t, int(kSmallRank)>(launches);
    else
      launch_copies<Item, int32_t, int(kMatrixRank)>(launches);
  });
}

}  // namespace torch_dml_ops::cuda
