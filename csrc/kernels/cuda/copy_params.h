// The parameters of the kernels that execute affine copies.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "access_pattern.h"
#include "dims.h"
#include "vec_partition.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {

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

// Of a copy with fewer dimensions than a kernel has, the outermost have size 1; this is the first other one. In a
// matrix it makes no difference.
template <bool kInMatrix>
struct FirstDim {
  int first_dim = 0;
};
template <>
struct FirstDim<true> {
  static constexpr int first_dim = 0;
};

// One copy.
template <class OffsetOf, int kRankOf, AccessPattern kAccess>
struct CopyParams : FirstDim<(kRankOf <= int(kMatrixRank))> {
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
  uint32_t chunks;
  VectorOffsets<Offset> vector_loads;  // none if the items of rows do not follow one another
  std::conditional_t<kWindowed, WindowDim<Offset>, Dim<Offset>> dims[kRank];

  // Unravels the linear index `index` over dims [0, kDims) and adds the offsets.
  template <int kDims>
  __device__ __forceinline__ void add_offsets(Offset index, Offsets& offsets) const {
    unravel<kDims>(dims, this->first_dim, index, [&](const auto& dim, Offset j, int) {
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
    });
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
constexpr uint32_t kNoChunk = UINT32_MAX;  // the number of a chunk that a block of a launch does not have

// In which order blocks take the chunks of all copies: neighbouring memory is accessed at about the same time, so that
// a sector with items of several copies moves once. A round is a share of each copy's chunks, the same of each: of
// copies with the same number of chunks one, otherwise about kRoundChunks of them, of which some rounds have one less.
template <int kMaxCopies>
struct ChunkOrder {
  FastDivmod<int32_t> round;  // how many blocks take one
  bool same_chunks;
  int log2_rounds;
  uint32_t first_in_round[kMaxCopies];
};
template <>
struct ChunkOrder<1> {};
constexpr int64_t kRoundChunks = 8;

// The copies of a launch, passed as the kernel's parameter.
template <class Params, int kMaxCopies>
struct CopyBatch {
  int copies;
  ChunkOrder<kMaxCopies> order;
  Params copy[kMaxCopies];

  __device__ Chunk<Params> chunk(uint32_t block) const {
    if constexpr (kMaxCopies == 1) {
      return {copy[0], block};
    } else {
      const auto [round, within] = order.round.divmod(int32_t(block));
      if (order.same_chunks) return {copy[within], uint32_t(round)};
      int first = 0, last = copies - 1;  // binary search among these
      while (first < last) {
        const int middle = (first + last + 1) / 2;
        if (order.first_in_round[middle] <= uint32_t(within))
          first = middle;
        else
          last = middle - 1;
      }
      const auto begin_of = [&, all = copy[first].chunks](int r) {
        return uint32_t((uint64_t(uint32_t(r)) * all) >> order.log2_rounds);
      };
      const uint32_t number = begin_of(round) + (uint32_t(within) - order.first_in_round[first]);
      return {copy[first], number < begin_of(round + 1) ? number : kNoChunk};
    }
  }
};

// Returns how many blocks take the chunks.
template <class Params, int kMaxCopies>
int64_t set_order(CopyBatch<Params, kMaxCopies>& batch) {
  if constexpr (kMaxCopies == 1) {
    return batch.copy[0].chunks;
  } else {
    ChunkOrder<kMaxCopies>& order = batch.order;
    int64_t all = 0, round = 0;
    order.same_chunks = true;
    for (int c = 0; c < batch.copies; ++c) {
      order.same_chunks = order.same_chunks && batch.copy[c].chunks == batch.copy[0].chunks;
      all += batch.copy[c].chunks;
    }
    order.log2_rounds = std::max(int(std::bit_width(uint64_t(all / (kRoundChunks * batch.copies)))), 1) - 1;
    for (int c = 0; c < batch.copies; ++c) {
      order.first_in_round[c] = uint32_t(round);
      round += order.same_chunks ? 1 : ((int64_t(batch.copy[c].chunks) - 1) >> order.log2_rounds) + 1;
    }
    order.round = FastDivmod<int32_t>(round);
    return checked_chunks(order.same_chunks ? all : round << order.log2_rounds);
  }
}

}  // namespace torch_dml_ops::cuda
