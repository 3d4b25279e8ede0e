// Copies of short rows that lie side by side in the destination or in the source, and one behind another on the other
// side. They are put in order in shared memory: each byte moves once, together with its neighbours.
//
//   piece   what one copy contributes; all have rows of the same size
//   chunk   a few rows of all pieces, up to 16 KB; a block takes one chunk
//   word    an item of a piece, or as many as fill 4 bytes; a thread takes words that are 256 apart
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "../affine_copy.h"
#include "dims.h"
#include "fast_divmod.h"
#include "launch.h"
#include "tiles.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {

// How many bytes a chunk has at most, and of how many pieces.
constexpr int64_t kChunkBytes = 16 << 10, kMaxInterleaved = 128;

struct InterleavedParams {
  FastDivmod<int32_t> words;        // of a piece in a chunk
  FastDivmod<int32_t> row_size;     // of a piece, in items
  int pieces, rows, row_count;      // rows of a chunk, and of all
  bool whole_vectors, whole_words;  // whether chunks begin at aligned addresses: rows side by side, and pieces
  char* side_by_side;               // rows of all pieces
  char* piece[kMaxInterleaved];     // rows one behind another
};

// Where an item is in shared memory: with 4 bytes between every 128, so that items of successive rows are in different
// banks.
template <class Item>
__device__ __forceinline__ constexpr uint32_t padded(uint32_t k) {
  constexpr uint32_t kItems = 128 / sizeof(Item), kPadding = std::max<uint32_t>(4 / sizeof(Item), 1);
  return k + k / kItems * kPadding;
}

// How many blocks an SM runs at once: on sm_90, where it was measured, as many as its threads are enough for; elsewhere
// four, which leave a thread 64 registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
[[maybe_unused]] constexpr int kInterleavedBlocks = kMaxBlocksPerSM;
#else
[[maybe_unused]] constexpr int kInterleavedBlocks = 4;
#endif

namespace {

template <class Item, bool kJoined>
__global__ void __launch_bounds__(kThreadsPerBlock, kInterleavedBlocks)
    copy_interleaved(const __grid_constant__ InterleavedParams params) {
  constexpr int kVecSize = kItemsPerVector<Item>, kPerWord = kItemsPerWord<Item>, kAtOnce = kPerWord > 1 ? 1 : 2;
  using Word = std::conditional_t<kPerWord == 1, Item, uint32_t>;
  __shared__ Item tile[padded<Item>(uint32_t(kChunkBytes / sizeof(Item)))];
  const int thread = int(threadIdx.x), row_size = int(params.row_size.divisor), whole_size = row_size * params.pieces;
  const int first_row = int(blockIdx.x) * params.rows, rows = std::min(params.rows, params.row_count - first_row);
  const int items = rows * whole_size, vectors = params.whole_vectors ? items / kVecSize : 0;
  Item* side_by_side = reinterpret_cast<Item*>(params.side_by_side) + first_row * whole_size;

  struct PieceWord {
    Item* items;
    int count;  // of its items that there are; none if negative
    int i, at;  // of the first one in its row, and in the chunk
  };
  const auto word_at = [&](int number) {
    const auto [piece, word] = params.words.divmod(number);
    const int k = word * kPerWord;
    const auto [row, i] = params.row_size.divmod(k);
    const bool any = piece < params.pieces;
    return PieceWord{reinterpret_cast<Item*>(params.piece[any ? piece : 0]) + (first_row * row_size + k),
                     any ? std::min(rows * row_size - k, kPerWord) : 0, i, row * whole_size + piece * row_size + i};
  };
  // Calls move(j, item) for items of a word, where they are in shared memory.
  const auto for_items = [&](const PieceWord& word, auto move) {
    int i = word.i, at = word.at;
#pragma unroll
    for (int j = 0; j < kPerWord; ++j, ++at) {
      if (j < word.count) move(j, tile[padded<Item>(uint32_t(at))]);
      if (j + 1 == kPerWord || ++i < row_size) continue;
      i = 0;
      at += whole_size - row_size;
    }
  };
  const int all_words = params.pieces * int(params.words.divisor);
  if constexpr (kJoined) {
    for (int first = thread; first < all_words; first += kAtOnce * kThreadsPerBlock) {
      Item loaded[kAtOnce][kPerWord] = {};
      PieceWord words[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const PieceWord& word = words[u] = word_at(first + u * kThreadsPerBlock);
        if (params.whole_words && word.count == kPerWord) {
          const Word all = load(reinterpret_cast<const Word*>(word.items));
          memcpy(loaded[u], &all, sizeof(all));
        } else {
#pragma unroll
          for (int j = 0; j < kPerWord; ++j)
            if (j < word.count) loaded[u][j] = load(word.items + j);
        }
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) for_items(words[u], [&](int j, Item& item) { item = loaded[u][j]; });
    }
    __syncthreads();
    for (int v = thread; v < vectors; v += kThreadsPerBlock) {
      Item vector[kVecSize];
#pragma unroll
      for (int j = 0; j < kVecSize; ++j) vector[j] = tile[padded<Item>(uint32_t(v * kVecSize)) + j];
      store(reinterpret_cast<Vector*>(side_by_side) + v, to_vector(vector));
    }
    for (int k = vectors * kVecSize + thread; k < items; k += kThreadsPerBlock)
      store(side_by_side + k, tile[padded<Item>(uint32_t(k))]);
  } else {
    constexpr int kVecsAtOnce = 4;
    for (int first = thread; first < vectors; first += kVecsAtOnce * kThreadsPerBlock) {
      Vector loaded[kVecsAtOnce] = {};
#pragma unroll
      for (int u = 0; u < kVecsAtOnce; ++u)
        if (first + u * kThreadsPerBlock < vectors)
          loaded[u] = load(reinterpret_cast<const Vector*>(side_by_side) + first + u * kThreadsPerBlock);
#pragma unroll
      for (int u = 0; u < kVecsAtOnce; ++u) {
        Item vector[kVecSize];
        memcpy(vector, &loaded[u], sizeof(vector));
        const int v = first + u * kThreadsPerBlock;
        if (v < vectors)
#pragma unroll
          for (int j = 0; j < kVecSize; ++j) tile[padded<Item>(uint32_t(v * kVecSize)) + j] = vector[j];
      }
    }
    for (int k = vectors * kVecSize + thread; k < items; k += kThreadsPerBlock)
      tile[padded<Item>(uint32_t(k))] = load(side_by_side + k);
    __syncthreads();
#pragma unroll 2
    for (int number = thread; number < all_words; number += kThreadsPerBlock) {
      const PieceWord word = word_at(number);
      Item stored[kPerWord] = {};
      for_items(word, [&](int j, const Item& item) { stored[j] = item; });
      if (params.whole_words && word.count == kPerWord) {
        store(reinterpret_cast<Word*>(word.items), to_word<Word>(stored));
      } else {
#pragma unroll
        for (int j = 0; j < kPerWord; ++j)
          if (j < word.count) store(word.items + j, stored[j]);
      }
    }
  }
}

// How many rows are in a chunk: a power of 2 that leaves four chunks for each SM, if that is a whole number of vectors,
// and 64 bytes of a piece; 0 where this is not possible, or is less than a chunk for each, or a small one of rows that
// are a vector or longer.
inline int64_t interleaved_rows(int64_t rows, int64_t row_bytes, int64_t pieces, int64_t item_size) {
  constexpr int64_t kPieceBytes = 64, kSmallChunk = 1 << 10;
  const auto least = int64_t(std::bit_ceil(
      uint64_t(std::max({kMaxItemBytes / item_size, (kPieceBytes + row_bytes - 1) / row_bytes, int64_t(1)}))));
  int64_t result = int64_t(std::bit_floor(uint64_t(kChunkBytes / (row_bytes * pieces))));
  while (result > least && rows < 4 * result * limits().sm_count) result /= 2;
  if (result < least || rows < result * limits().sm_count) return 0;
  return row_bytes >= kMaxItemBytes && result * row_bytes * pieces < kSmallChunk ? 0 : result;
}

template <class Item, bool kJoined>
void launch_interleaved(const std::vector<AffineCopy>& copies, int64_t row_count, int64_t row_size, int64_t rows,
                        Stream stream) {
  constexpr int64_t kPerWord = kItemsPerWord<Item>, kWordBytes = kPerWord * int64_t(sizeof(Item));
  InterleavedParams params{};
  params.words = FastDivmod<int32_t>((rows * row_size + kPerWord - 1) / kPerWord);
  params.row_size = FastDivmod<int32_t>(row_size);
  params.rows = int(rows);
  params.row_count = int(row_count);
  params.side_by_side = kJoined ? copies[0].dst : const_cast<char*>(copies[0].src);
  const auto piece_bytes = rows * row_size * int64_t(sizeof(Item));
  CommonAlignment vector(kMaxItemBytes), word(kWordBytes);
  vector.include(params.side_by_side);
  vector.include(piece_bytes);
  word.include(piece_bytes);
  for (const AffineCopy& copy : copies) {
    char* piece = kJoined ? const_cast<char*>(copy.src) : copy.dst;
    params.piece[params.pieces++] = piece;
    word.include(piece);
  }
  params.whole_vectors = vector.value() == kMaxItemBytes;
  params.whole_words = word.value() == kWordBytes;
  launch<copy_interleaved<Item, kJoined>>("copy_interleaved", (row_count + rows - 1) / rows, kThreadsPerBlock, stream,
                                          params);
}

// Executes all copies in one launch if their rows lie side by side in the destination or in the source, one behind
// another on the other side, and are too short to be moved by themselves. Returns false if not.
inline bool try_interleaved(const std::vector<AffineCopy>& copies, int64_t item_size, Stream stream) {
  constexpr int64_t kLong = 128, kFewBytes = 12;
  const auto count = int64_t(copies.size());
  if (count < 2 || count > kMaxInterleaved) return false;
  struct Rows {
    int64_t count, size, dst_stride, src_stride;
    bool operator==(const Rows&) const = default;
  };
  const auto rows_of = [](const AffineCopy& copy) {
    const CopyDim &first = copy.dims.front(), &last = copy.dims.back();
    const bool single = copy.dims.size() == 1;
    const bool plain =
        first.reads_all() && last.reads_all() && (single || (last.dst_stride == 1 && last.src_stride == 1));
    if (copy.dims.size() > 2 || !plain) return Rows{};
    return Rows{first.size, single ? 1 : last.size, first.dst_stride, first.src_stride};
  };
  const Rows rows = rows_of(copies[0]);
  const int64_t row_bytes = rows.size * item_size, whole = rows.size * count;
  if (rows.size == 0 || row_bytes >= kLong) return false;
  bool joined = rows.dst_stride == whole && rows.src_stride == rows.size;
  // Of few small items, what is loaded for one piece is still in the L1 cache for another.
  bool parted = rows.src_stride == whole && rows.dst_stride == rows.size && count * item_size > kFewBytes;
  for (int64_t k = 0; k < count; ++k) {
    const AffineCopy& copy = copies[std::size_t(k)];
    joined = joined && rows_of(copy) == rows && copy.dst == copies[0].dst + k * row_bytes;
    parted = parted && rows_of(copy) == rows && copy.src == copies[0].src + k * row_bytes;
  }
  const int64_t in_chunk = joined || parted ? interleaved_rows(rows.count, row_bytes, count, item_size) : 0;
  if (in_chunk == 0) return false;
  dispatch_item_size(item_size, [&](auto item) {
    const auto kernel = joined ? launch_interleaved<decltype(item), true> : launch_interleaved<decltype(item), false>;
    kernel(copies, rows.count, rows.size, in_chunk, stream);
  });
  return true;
}

}  // namespace
}  // namespace torch_dml_ops::cuda
