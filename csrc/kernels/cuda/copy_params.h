// The parameters of the kernels that execute affine copies.
#pragma once

#include <algorithm>
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

// Which rows of all copies are moved together.
template <class Offset>
struct InterleavedRows {
  FastDivmod<Offset> piece;  // how many items of each copy a chunk has
  int rows;                  // in a chunk
  bool vectorized;           // whether the side where they lie side by side begins at an address of whole vectors
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
    InterleavedRows<Offset> rows;
  };
  VectorOffsets<Offset> vector_loads;  // none if the items of rows do not follow one another
  uint32_t first_chunk;
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

// The copies of a launch, passed as the kernel's parameter.
template <class Params, int kMaxCopies>
struct CopyBatch {
  uint32_t chunks;  // of all copies
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

}  // namespace torch_dml_ops::cuda
