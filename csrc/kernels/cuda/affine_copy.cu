#include "../affine_copy.h"

#include <algorithm>
#include <vector>

#include "device.h"

namespace torch_dml_ops::cuda {
namespace {

template <class Offset>
struct Dim {
  Divisor<Offset> size;
  Offset dst_stride, src_stride;
};

template <class Offset>
struct WindowDim : Dim<Offset> {
  Offset begin, count;
  Divisor<Offset> step;
};

// One copy of a batch, in kRank dimensions; the outer ones have size 1 where it needs fewer.
template <class Offset, int kRank, bool kWindowed>
struct Piece {
  char* dst;
  const char* src;
  Offset numel;
  uint32_t first_block;
  std::conditional_t<kWindowed, WindowDim<Offset>, Dim<Offset>> dims[kRank];
};

template <class Item, class Offset, int kRank, bool kWindowed>
struct Batch {
  using Piece = cuda::Piece<Offset, kRank, kWindowed>;
  static constexpr int kMostPieces = int((kMostParameterBytes - 16) / sizeof(Piece));
  int pieces;
  Piece piece[kMostPieces];
};

template <class Item, class Offset, int kRank, bool kWindowed>
__global__ void __launch_bounds__(kThreads)
    affine_copy(const __grid_constant__ Batch<Item, Offset, kRank, kWindowed> batch) {
  int first = 0, last = batch.pieces - 1;  // the piece is among these
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (batch.piece[middle].first_block <= blockIdx.x)
      first = middle;
    else
      last = middle - 1;
  }
  const auto& piece = batch.piece[first];
  const Offset start = Offset(blockIdx.x - piece.first_block) * kItemsPerBlock + Offset(threadIdx.x);
  Item items[kItemsPerThread];
  Offset places[kItemsPerThread];
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    Offset rest = start + u * kThreads, src = 0;
    places[u] = -1;
    if (rest >= piece.numel) continue;
    places[u] = 0;
    bool zero = false;
#pragma unroll
    for (int k = kRank - 1; k >= 0; --k) {
      const auto& dim = piece.dims[k];
      Offset index = rest;
      if (k > 0) {
        rest = dim.size.quotient(rest);
        index -= rest * Offset(dim.size.divisor);
      }
      places[u] += index * dim.dst_stride;
      if constexpr (kWindowed) {
        const Offset distance = index - dim.begin;
        const Offset q = distance < 0 ? 0 : dim.step.quotient(distance);
        zero |= distance < 0 || q * Offset(dim.step.divisor) != distance || q >= dim.count;
        src += q * dim.src_stride;
      } else {
        src += index * dim.src_stride;
      }
    }
    items[u] = zero ? Item{} : load(reinterpret_cast<const Item*>(piece.src) + src);
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u)
    if (places[u] >= 0) store(reinterpret_cast<Item*>(piece.dst) + places[u], items[u]);
}

constexpr int kMostRank = 8;

// `copy` as copies of at most kMostRank dimensions, one for each index of those that are too many.
void append_peeled(const AffineCopy& copy, int64_t item_size, std::vector<AffineCopy>& to) {
  if (copy.dims.size() <= kMostRank) {
    to.push_back(copy);
    return;
  }
  const CopyDim outer = copy.dims.front();
  AffineCopy inner = copy;
  inner.dims.erase(inner.dims.begin());
  for (int64_t j = 0; j < outer.size; ++j) {
    const int64_t distance = j - outer.begin, q = distance / outer.step;
    AffineCopy at = inner;
    at.dst += j * outer.dst_stride * item_size;
    if (distance >= 0 && distance % outer.step == 0 && q < outer.count)
      at.src += q * outer.src_stride * item_size;
    else
      at.dims.front().count = 0;  // this index reads nothing
    append_peeled(at, item_size, to);
  }
}

template <class Item, class Offset, int kRank, bool kWindowed>
void launch_batches(const std::vector<AffineCopy>& copies, Stream stream) {
  Batch<Item, Offset, kRank, kWindowed> batch;
  batch.pieces = 0;
  int64_t blocks = 0;
  for (std::size_t c = 0; c < copies.size(); ++c) {
    const AffineCopy& copy = copies[c];
    const int64_t numel = copy.numel();
    auto& piece = batch.piece[batch.pieces++];
    piece.dst = copy.dst;
    piece.src = copy.src;
    piece.numel = Offset(numel);
    piece.first_block = uint32_t(blocks);
    blocks += (numel + kItemsPerBlock - 1) / kItemsPerBlock;
    const int padding = kRank - int(copy.dims.size());
    for (int k = 0; k < kRank; ++k) {
      const CopyDim dim = k < padding ? plain_dim(1, 0, 0) : copy.dims[std::size_t(k - padding)];
      auto& to = piece.dims[k];
      to.size = Divisor<Offset>(dim.size);
      to.dst_stride = Offset(dim.dst_stride);
      to.src_stride = Offset(dim.src_stride);
      if constexpr (kWindowed) {
        to.begin = Offset(dim.begin);
        to.count = Offset(dim.count);
        to.step = Divisor<Offset>(dim.step);
      }
    }
    if (batch.pieces == batch.kMostPieces || c + 1 == copies.size()) {
      launch("affine_copy", affine_copy<Item, Offset, kRank, kWindowed>, blocks, kThreads, stream, batch);
      batch.pieces = 0;
      blocks = 0;
    }
  }
}

template <class Item, class Offset, int kRank>
void launch_rank(const std::vector<AffineCopy>& copies, bool windowed, Stream stream) {
  if (windowed)
    launch_batches<Item, Offset, kRank, true>(copies, stream);
  else
    launch_batches<Item, Offset, kRank, false>(copies, stream);
}

template <class Item, class Offset>
void launch_all(const std::vector<AffineCopy>& copies, std::size_t rank, bool windowed, Stream stream) {
  if (rank <= 2) return launch_rank<Item, Offset, 2>(copies, windowed, stream);
  if (rank <= 4) return launch_rank<Item, Offset, 4>(copies, windowed, stream);
  launch_rank<Item, Offset, kMostRank>(copies, windowed, stream);
}

}  // namespace

void run(AffineCopies plan, Stream stream) {
  align(plan);
  int64_t factor = kWidestItem;
  for (AffineCopy& copy : plan.copies) {
    normalize(copy);
    factor = std::min(factor, items_per_wide_item(copy, plan.item_size, true));
  }
  std::vector<AffineCopy> copies;
  for (AffineCopy& copy : plan.copies) {
    widen(copy, factor);
    append_peeled(copy, plan.item_size * factor, copies);
  }
  std::size_t rank = 0;
  bool windowed = false;
  int64_t reach = 0;  // the largest offset of all copies
  for (const AffineCopy& copy : copies) {
    int64_t dst = kItemsPerBlock, src = 0;  // the last block counts past the end of its copy
    for (const CopyDim& dim : copy.dims) {
      windowed |= !dim.reads_all();
      add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
      add_reach(src, dim.count, dim.src_stride);
    }
    reach = std::max({reach, dst, src, copy.numel() + kItemsPerBlock});
    rank = std::max(rank, copy.dims.size());
  }
  with_item_type(plan.item_size * factor, [&](auto item) {
    using Item = decltype(item);
    if (reach <= largest_32_bit_offset())
      launch_all<Item, int32_t>(copies, rank, windowed, stream);
    else
      launch_all<Item, int64_t>(copies, rank, windowed, stream);
  });
}

}  // namespace torch_dml_ops::cuda
