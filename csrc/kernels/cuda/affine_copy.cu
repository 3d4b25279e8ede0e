#include "../affine_copy.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "device.h"
#include "slots.h"
#include "vectors.h"

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

// How many tiles lie along the last two dimensions.
template <class Offset>
struct Tiles {
  Divisor<Offset> columns, lines;
};

// What is known of a row of the source when the kernel is compiled.
enum class Row {
  kForward,   // its items follow one another
  kBackward,  // the same from the end
  kStrided,   // any stride
  kWindowed,  // any stride, and an index may read nothing
};

// One copy of a batch, in kRank dimensions; the outer ones have size 1 where it needs fewer.
template <class Offset, int kRank, bool kWindowed>
struct Piece {
  char* dst;
  const char* src;
  Range readable;
  union {
    Slots<Offset> slots;
    Tiles<Offset> tiles;
  };
  uint32_t first_chunk;
  std::conditional_t<kWindowed, WindowDim<Offset>, Dim<Offset>> dims[kRank];
};

// The pieces of a launch, by value. kBytes is the most that a kernel may be given.
template <class Piece, std::size_t kBytes>
struct Batch {
  static constexpr int kMostPieces = int((kBytes - 16) / sizeof(Piece));
  uint32_t chunks;  // of all pieces: what a block does before it looks for more
  int pieces;
  Piece piece[kMostPieces];
};

template <class Piece, std::size_t kBytes>
__device__ const Piece& piece_of(const Batch<Piece, kBytes>& batch, uint32_t chunk) {
  int first = 0, last = batch.pieces - 1;  // it is among these
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (batch.piece[middle].first_chunk <= chunk)
      first = middle;
    else
      last = middle - 1;
  }
  return batch.piece[first];
}

// Where dimensions [from, to) put place `rest` of theirs: adds to the offsets, and says where an index reads nothing.
template <class Offset, int kRank, bool kWindowed>
__device__ __forceinline__ void walk(const Piece<Offset, kRank, kWindowed>& piece, int from, int to, Offset rest,
                                     Offset& dst, Offset& src, bool& zero) {
#pragma unroll
  for (int k = kRank - 1; k >= 0; --k) {
    if (k < from || k >= to) continue;
    const auto& dim = piece.dims[k];
    Offset index = rest;
    if (k > from) {
      rest = dim.size.quotient(rest);
      index -= rest * Offset(dim.size.divisor);
    }
    dst += index * dim.dst_stride;
    if constexpr (kWindowed) {
      const Offset distance = index - dim.begin;
      const Offset q = distance < 0 ? 0 : dim.step.quotient(distance);
      zero |= distance < 0 || q * Offset(dim.step.divisor) != distance || q >= dim.count;
      src += q * dim.src_stride;
    } else {
      src += index * dim.src_stride;
    }
  }
}

template <class Item, Row kRow>
constexpr int kSlotItems = kRow == Row::kStrided ? std::min(4, kItemsPerVector<Item>) : kItemsPerVector<Item>;

// Items [begin, end) of a slot whose first item is at index i of a row, all of them in that row. `src` is the row's
// index 0.
template <class Item, Row kRow, class Dim, class Offset>
__device__ __forceinline__ Items<Item, kSlotItems<Item, kRow>> read_row(const Dim& row, const Range& readable,
                                                                        const Item* src, Offset i, int begin, int end) {
  constexpr int kCount = kSlotItems<Item, kRow>;
  Items<Item, kCount> items{};
  const bool whole = begin == 0 && end == kCount;
  if constexpr (kRow == Row::kForward || kRow == Row::kWindowed) {
    bool plain = true;
    if constexpr (kRow == Row::kWindowed) {
      i -= row.begin;
      plain = row.step.divisor == 1 && row.src_stride == 1 && i >= 0 && i + kCount <= row.count;
    }
    const char* from = reinterpret_cast<const char*>(src + i);
    if (plain && whole && readable.has_vectors_at(from)) return as_items<Item>(load_vector<int(sizeof(Item))>(from));
  }
  if constexpr (kRow == Row::kBackward) {
    const char* from = reinterpret_cast<const char*>(src - i - (kCount - 1));
    if (whole && readable.has_vectors_at(from))
      return as_items<Item>(turned_round<int(sizeof(Item))>(load_vector<int(sizeof(Item))>(from)));
  }
  if constexpr (kRow == Row::kWindowed) {
    // One division, then by counting: the reads so far and what is left until the next.
    const auto step = Offset(row.step.divisor);
    Offset q = i <= 0 ? 0 : row.step.quotient(i + step - 1), left = i <= 0 ? -i : q * step - i;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (j < begin || j >= end) continue;
      if (left == 0 && q < row.count) items.item[j] = load(src + q * row.src_stride);
      if (left == 0) {
        ++q;
        left = step;
      }
      --left;
    }
  } else {
    const Offset stride = kRow == Row::kForward ? 1 : kRow == Row::kBackward ? -1 : row.src_stride;
    fill(items, begin, end, [&](int j) { return load(src + (i + j) * stride); });
  }
  return items;
}

template <class Item, class Offset, int kRank, Row kRow, std::size_t kBytes>
__global__ void __launch_bounds__(kThreads)
    copy_slots(const __grid_constant__ Batch<Piece<Offset, kRank, kRow == Row::kWindowed>, kBytes> batch) {
  constexpr int kCount = kSlotItems<Item, kRow>;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto& piece = piece_of(batch, chunk);
    const auto& row = piece.dims[kRank - 1];
    Item* dst = reinterpret_cast<Item*>(piece.dst);
    const Item* src = reinterpret_cast<const Item*>(piece.src);
    const Offset start = Offset(chunk - piece.first_chunk) * kPerBlock + Offset(threadIdx.x);
    Items<Item, kCount> items[kPerThread];
    Slot<Offset> slots[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      Offset dst_at = 0, src_at = 0;
      bool zero = false;
      Slot<Offset>& slot = slots[u] = piece.slots.slot(start + u * kThreads);
      if (slot.range < 0) continue;
      walk(piece, 0, piece.slots.outer, slot.range, dst_at, src_at, zero);
      piece.slots.template place<Item, kCount>(slot, dst, dst_at);
      if (slot.begin >= slot.end) continue;
      Offset i = slot.first, outer = 0, row_src = src_at;
      bool row_zero = zero;
      if (piece.slots.outer < kRank - 1) {
        outer = row.size.quotient(i);
        i -= outer * Offset(row.size.divisor);
        Offset unused = 0;
        walk(piece, piece.slots.outer, kRank - 1, outer, unused, row_src, row_zero);
      }
      if (i + (slot.end - slot.begin) <= Offset(row.size.divisor)) {
        items[u] = {};
        if (!row_zero) items[u] = read_row<Item, kRow>(row, piece.readable, src + row_src, i, slot.begin, slot.end);
        continue;
      }
      // Places of two rows or more.
      fill(items[u], slot.begin, slot.end, [&](int j) {
        Offset unused = 0, item_src = src_at;
        bool item_zero = zero;
        walk(piece, piece.slots.outer, kRank, slot.first + j, unused, item_src, item_zero);
        return item_zero ? Item{} : load(src + item_src);
      });
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u)
      if (slots[u].begin < slots[u].end) store_items(dst + slots[u].at, items[u], slots[u].begin, slots[u].end);
  }
}

// Items of a tile's side: its rows are whole sectors of memory, and more where items are small.
template <class Item>
constexpr int kSide = sizeof(Item) < 4 ? 64 : 32;

// Where the source's neighbours are another dimension's than the destination's: tiles of the two, turned in shared
// memory. The last dimension is the destination's, the last but one the source's.
template <class Item, class Offset, int kRank, std::size_t kBytes>
__global__ void __launch_bounds__(kThreads)
    copy_tiles(const __grid_constant__ Batch<Piece<Offset, kRank, false>, kBytes> batch) {
  constexpr int kTile = kSide<Item>, kRows = kThreads / kTile, kEach = kTile / kRows;
  __shared__ Item tile[kTile][kTile + 1];
  const int x = int(threadIdx.x) % kTile, y = int(threadIdx.x) / kTile;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto& piece = piece_of(batch, chunk);
    const auto& column = piece.dims[kRank - 1];
    const auto& line = piece.dims[kRank - 2];
    const auto number = Offset(chunk - piece.first_chunk);
    const Offset of_line = piece.tiles.columns.quotient(number), outer = piece.tiles.lines.quotient(of_line);
    const Offset first_column = (number - of_line * Offset(piece.tiles.columns.divisor)) * kTile;
    const Offset first_line = (of_line - outer * Offset(piece.tiles.lines.divisor)) * kTile;
    Offset dst_at = 0, src_at = 0;
    bool zero = false;
    walk(piece, 0, kRank - 2, outer, dst_at, src_at, zero);
    const Item* src = reinterpret_cast<const Item*>(piece.src) + src_at;
    Item* dst = reinterpret_cast<Item*>(piece.dst) + dst_at;
    Item items[kEach] = {};
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
      const Offset c = first_column + y + u * kRows, l = first_line + x;
      if (c < Offset(column.size.divisor) && l < Offset(line.size.divisor))
        items[u] = load(src + c * column.src_stride + l * line.src_stride);
    }
#pragma unroll
    for (int u = 0; u < kEach; ++u) tile[y + u * kRows][x] = items[u];
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
      const Offset c = first_column + x, l = first_line + y + u * kRows;
      if (c < Offset(column.size.divisor) && l < Offset(line.size.divisor))
        store(dst + c * column.dst_stride + l * line.dst_stride, tile[x][y + u * kRows]);
    }
    __syncthreads();
  }
}

constexpr std::size_t kUsualRank = 4, kMostRank = 8;

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

// From the lowest to the highest byte that a copy reads.
Range readable(const AffineCopy& copy, int64_t item_size) {
  int64_t low = 0, high = 0;
  for (const CopyDim& d : copy.dims) {
    if (d.count == 0) return {copy.src, copy.src};
    (d.src_stride < 0 ? low : high) += (d.count - 1) * d.src_stride;
  }
  return {copy.src + low * item_size, copy.src + (high + 1) * item_size};
}

// Copies of one kind, with what their launches are made from.
struct Work {
  std::vector<AffineCopy> copies;
  int64_t item_size;
  bool tiles, windowed;
  Row row;
  std::size_t rank;
  int64_t reach;  // the largest offset of all copies
  Stream stream;
};

template <class Item, class Offset, int kRank, Row kRow, bool kTiles, std::size_t kBytes>
void launch_batches(const Work& work) {
  using Pieces = Batch<Piece<Offset, kRank, kRow == Row::kWindowed>, kBytes>;
  constexpr auto kItem = int64_t(sizeof(Item));
  Pieces batch;
  batch.pieces = 0;
  batch.chunks = 0;
  for (std::size_t c = 0; c < work.copies.size(); ++c) {
    const AffineCopy& copy = work.copies[c];
    auto& piece = batch.piece[batch.pieces++];
    piece.dst = copy.dst;
    piece.src = copy.src;
    piece.readable = readable(copy, kItem);
    piece.first_chunk = batch.chunks;
    const int padding = kRank - int(copy.dims.size());
    for (int k = 0; k < kRank; ++k) {
      const CopyDim dim = k < padding ? plain_dim(1, 0, 0) : copy.dims[std::size_t(k - padding)];
      auto& to = piece.dims[k];
      to.size = Divisor<Offset>(dim.size);
      to.dst_stride = Offset(dim.dst_stride);
      to.src_stride = Offset(dim.src_stride);
      if constexpr (kRow == Row::kWindowed) {
        to.begin = Offset(dim.begin);
        to.count = Offset(dim.count);
        to.step = Divisor<Offset>(dim.step);
      }
    }
    if constexpr (kTiles) {
      const auto tiles = [](int64_t size) { return (size + kSide<Item> - 1) / kSide<Item>; };
      const int64_t columns = tiles(copy.dims.back().size), lines = tiles(copy.dims[copy.dims.size() - 2].size);
      piece.tiles = {Divisor<Offset>(columns), Divisor<Offset>(lines)};
      int64_t outer = 1;
      for (std::size_t k = 0; k + 2 < copy.dims.size(); ++k) outer *= copy.dims[k].size;
      batch.chunks += uint32_t(outer * columns * lines);
    } else {
      int64_t outer_strides = 0;  // their bits together
      std::size_t first = copy.dims.size() - 1;
      int64_t places = copy.dims.back().size;
      while (first > 0 && copy.dims[first - 1].dst_stride == places) places *= copy.dims[--first].size;
      int64_t ranges = 1;
      for (std::size_t k = 0; k < first; ++k) {
        ranges *= copy.dims[k].size;
        outer_strides |= copy.dims[k].dst_stride;
      }
      piece.slots = Slots<Offset>::template of<Item, kSlotItems<Item, kRow>>(copy.dst, outer_strides, places, ranges,
                                                                             padding + int(first));
      batch.chunks += uint32_t((int64_t(piece.slots.count) + kPerBlock - 1) / kPerBlock);
    }
    if (batch.pieces == Pieces::kMostPieces || c + 1 == work.copies.size()) {
      const int64_t blocks = std::min<int64_t>(batch.chunks, most_blocks(kThreads));
      if constexpr (kTiles)
        launch("copy_tiles", copy_tiles<Item, Offset, kRank, kBytes>, blocks, kThreads, work.stream, batch);
      else
        launch("copy_slots", copy_slots<Item, Offset, kRank, kRow, kBytes>, blocks, kThreads, work.stream, batch);
      batch.pieces = 0;
      batch.chunks = 0;
    }
  }
}

template <class Item, class Offset, int kRank>
void launch_kind(const Work& work) {
  constexpr std::size_t kFew = kMostParameterBytes, kMany = kMostParameterBytesOfNewDrivers;
  if (work.tiles) return launch_batches<Item, Offset, kRank, Row::kForward, true, kFew>(work);
  switch (work.row) {
    case Row::kForward: {
      if constexpr (kRank == kUsualRank) {
        using Few = Batch<Piece<Offset, kRank, false>, kFew>;
        if (int64_t(work.copies.size()) > Few::kMostPieces && takes_many_parameters())
          return launch_batches<Item, Offset, kRank, Row::kForward, false, kMany>(work);
      }
      return launch_batches<Item, Offset, kRank, Row::kForward, false, kFew>(work);
    }
    case Row::kBackward:
      return launch_batches<Item, Offset, kRank, Row::kBackward, false, kFew>(work);
    case Row::kStrided:
      return launch_batches<Item, Offset, kRank, Row::kStrided, false, kFew>(work);
    case Row::kWindowed:
      return launch_batches<Item, Offset, kRank, Row::kWindowed, false, kFew>(work);
  }
}

// Brings the dimension along which the source's items follow one another next to the destination's, if they are two
// and both worth a tile; returns whether they are.
bool arrange_tiles(AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kLeast = 8, kSectorBytes = 32;
  std::vector<CopyDim>& dims = copy.dims;
  if (dims.size() < 2 || dims.back().size < kLeast || std::abs(dims.back().src_stride) * item_size < kSectorBytes)
    return false;
  const auto line = std::find_if(dims.begin(), dims.end() - 1, [&](const CopyDim& d) {
    return d.size >= kLeast && (d.src_stride == 1 || d.src_stride == -1);
  });
  if (line == dims.end() - 1) return false;
  std::rotate(line, line + 1, dims.end() - 1);
  return true;
}

}  // namespace

void run(AffineCopies plan, Stream stream) {
  align(plan);
  int64_t factor = kWidestItem;
  for (AffineCopy& copy : plan.copies) {
    normalize(copy);
    factor = std::min(factor, items_per_wide_item(copy, plan.item_size, true));
  }
  Work work{{}, plan.item_size * factor, true, false, Row::kStrided, 0, 0, stream};
  for (AffineCopy& copy : plan.copies) {
    widen(copy, factor);
    if (copy.dims.empty() || copy.dims.back().dst_stride != 1) copy.dims.push_back(plain_dim(1, 1, 1));
    append_peeled(copy, work.item_size, work.copies);
  }
  bool forward = true, backward = true;
  for (const AffineCopy& copy : work.copies) {
    int64_t dst = kPerBlock * kWidestItem, src = 0;  // the last chunk counts past the end of its copy
    for (const CopyDim& dim : copy.dims) {
      work.windowed |= !dim.reads_all();
      add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
      add_reach(src, std::max<int64_t>(dim.count, 1), dim.src_stride);
    }
    work.reach = std::max({work.reach, dst, src, copy.numel() * 2 + kPerBlock * kWidestItem});
    work.rank = std::max(work.rank, copy.dims.size());
    forward &= copy.dims.back().src_stride == 1;
    backward &= copy.dims.back().src_stride == -1;
  }
  if (work.windowed)
    work.row = Row::kWindowed;
  else if (forward)
    work.row = Row::kForward;
  else if (backward)
    work.row = Row::kBackward;
  std::vector<AffineCopy> arranged = work.copies;
  for (AffineCopy& copy : arranged) work.tiles = work.tiles && !work.windowed && arrange_tiles(copy, work.item_size);
  if (work.tiles) work.copies = std::move(arranged);
  with_item_type(work.item_size, [&](auto item) {
    using Item = decltype(item);
    if (work.reach <= largest_32_bit_offset() && work.rank <= kUsualRank)
      launch_kind<Item, int32_t, int(kUsualRank)>(work);
    else
      launch_kind<Item, int64_t, int(kMostRank)>(work);
  });
}

}  // namespace torch_dml_ops::cuda
