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

// How many tiles lie along the last two dimensions, and which dimensions come before them: [first, kRank - 2).
template <class Offset>
struct Tiles {
  Divisor<Offset> columns, lines;
  int first;
};

// What the rows of a source, its last dimension, mostly are.
enum class Row {
  kDense,     // items follow one another, forwards or backwards
  kStrided,   // they lie apart
  kNarrow,    // of so few items, here or in the destination, that each goes alone
  kWindowed,  // an index may read nothing
};

// One copy, in kRank dimensions; the outer ones have size 1 where it needs fewer.
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

// A chunk of the copies of a launch: which of them, and which chunk of it.
template <class Piece>
struct Chunk {
  const Piece& piece;
  uint32_t number;
};

// The copies of a launch, by value.
template <class Piece, int kMostPieces>
struct Batch {
  uint32_t chunks;  // of all pieces: what a block does before it looks for more
  int per_chunk;    // slots; or one tile
  int pieces;
  bool alike;                 // in their numbers of chunks. They take turns then: what is near in one place is done
  Divisor<int32_t> by_piece;  // at one time, and a sector with items of several pieces moves once
  Piece piece[kMostPieces];

  __device__ Chunk<Piece> chunk(uint32_t chunk) const {
    if constexpr (kMostPieces == 1) return {piece[0], chunk};
    if (alike) {
      const auto number = uint32_t(by_piece.quotient(int32_t(chunk)));
      return {piece[chunk - number * by_piece.divisor], number};
    }
    int first = 0, last = pieces - 1;  // it is among these
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (piece[middle].first_chunk <= chunk)
        first = middle;
      else
        last = middle - 1;
    }
    return {piece[first], chunk - piece[first].first_chunk};
  }
};

// Where something begins in the source, in items, or that it reads nothing.
template <class Offset>
struct Source {
  Offset at = 0;
  bool none = false;
};

// Adds what dimensions [from, to) make of place `rest` of theirs.
template <class Offset, int kRank, bool kWindowed>
__device__ __forceinline__ void walk(const Piece<Offset, kRank, kWindowed>& piece, int from, int to, Offset rest,
                                     Offset& dst, Source<Offset>& src) {
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
      const bool none = distance < 0 || q * Offset(dim.step.divisor) != distance || q >= dim.count;
      src.none |= none;
      if (!none) src.at += q * dim.src_stride;  // which could be out of all bounds
    } else {
      src.at += index * dim.src_stride;
    }
  }
}

// A slot and where it reads.
template <class Offset>
struct Located {
  Slot<Offset> slot;
  Source<Offset> range, row;  // that of the slot's first item
  Offset i;                   // the first item's index in its row
  bool in_one_row;
};

template <class Item, int kCount, class Offset, int kRank, bool kWindowed>
__device__ __forceinline__ Located<Offset> locate(const Piece<Offset, kRank, kWindowed>& piece, Offset number) {
  Located<Offset> l{};
  const Slots<Offset>& slots = piece.slots;
  l.slot = slots.template slot<Item, kCount>(number, reinterpret_cast<const Item*>(piece.dst), [&](Offset range) {
    Offset dst = 0;
    walk(piece, slots.first, slots.last, range, dst, l.range);
    return dst;
  });
  if (!l.slot.exists()) return l;  // what follows could be out of all bounds
  l.i = l.slot.first;
  l.row = l.range;
  const Divisor<Offset>& row_size = piece.dims[kRank - 1].size;
  if (slots.last < kRank - 1) {
    const Offset outer = row_size.quotient(l.i);
    l.i -= outer * Offset(row_size.divisor);
    Offset unused = 0;
    walk(piece, slots.last, kRank - 1, outer, unused, l.row);
  }
  l.in_one_row = l.i + (l.slot.end - l.slot.begin) <= Offset(row_size.divisor);
  return l;
}

template <class Item, Row kRow>
constexpr int kSlotItems = kRow == Row::kNarrow    ? 1
                           : kRow == Row::kStrided ? std::min(4, kItemsPerVector<Item>)
                                                   : kItemsPerVector<Item>;

// A whole slot in one row, on its way from the source.
template <class Item, Row kRow, bool kByVectors = kRow == Row::kDense || kRow == Row::kWindowed>
struct Whole {
  Unaligned<Item> vector;

  // Begins to load it from index i of a row on; false if that cannot be done in vectors.
  template <class Dim, class Offset>
  __device__ bool load_from(const Dim& row, const Range& readable, const char* src, Source<Offset> from, Offset i) {
    constexpr int kCount = kItemsPerVector<Item>;
    if constexpr (kRow == Row::kWindowed) {
      i -= row.begin;
      const auto step = Offset(row.step.divisor);
      if (from.none || i + kCount <= 0 || i > (row.count - 1) * step) {
        vector.set_zero();
        return true;
      }
      if (step != 1 || i < 0 || i + kCount > row.count) return false;
    }
    if (row.src_stride != 1 && row.src_stride != -1) return false;
    const Item* first = reinterpret_cast<const Item*>(src) + from.at;
    const char* low = reinterpret_cast<const char*>(row.src_stride < 0 ? first - i - (kCount - 1) : first + i);
    if (!readable.has_vectors_at(low)) return false;
    vector.load_from(low);
    return true;
  }
  template <class Dim>
  __device__ auto items(const Dim& row) const {
    return vector.items(row.src_stride < 0);
  }
};

template <class Item, Row kRow>
struct Whole<Item, kRow, false> {
  Items<Item, kSlotItems<Item, kRow>> loaded;

  template <class Dim, class Offset>
  __device__ bool load_from(const Dim& row, const Range&, const char* src, Source<Offset> from, Offset i) {
    const Item* first = reinterpret_cast<const Item*>(src) + (from.at + i * row.src_stride);
#pragma unroll
    for (int j = 0; j < kSlotItems<Item, kRow>; ++j) loaded.item[j] = load(first + j * row.src_stride);
    return true;
  }
  template <class Dim>
  __device__ const auto& items(const Dim&) const {
    return loaded;
  }
};

template <class Item, class Offset, int kRank, Row kRow, int kMostPieces>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    copy_slots(const __grid_constant__ Batch<Piece<Offset, kRank, kRow == Row::kWindowed>, kMostPieces> batch) {
  constexpr int kCount = kSlotItems<Item, kRow>;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [piece, number] = batch.chunk(chunk);
    const auto& row = piece.dims[kRank - 1];
    const auto first = Offset(number) * batch.per_chunk + Offset(threadIdx.x);
    Item* dst = reinterpret_cast<Item*>(piece.dst);
    Whole<Item, kRow> whole[kPerThread<Offset>];
    Offset at[kPerThread<Offset>];
    uint32_t loaded = 0, others = 0;  // a bit for each
#pragma unroll
    for (int u = 0; u < kPerThread<Offset>; ++u) {
      if (u * kThreads >= batch.per_chunk) break;
      const Located<Offset> l = locate<Item, kCount>(piece, first + u * kThreads);
      if (!l.slot.exists()) continue;
      at[u] = l.slot.at;
      if (l.in_one_row && l.slot.is_whole(kCount) && whole[u].load_from(row, piece.readable, piece.src, l.row, l.i))
        loaded |= 1u << u;
      else
        others |= 1u << u;
    }
#pragma unroll
    for (int u = 0; u < kPerThread<Offset>; ++u)
      if (loaded >> u & 1) store_items(dst + at[u], whole[u].items(row), 0, kCount);
    // The ends of rows, and rows shorter than a slot.
#pragma unroll 1
    for (int u = 0; others >> u != 0; ++u) {
      if ((others >> u & 1) == 0) continue;
      const Located<Offset> l = locate<Item, kCount>(piece, first + u * kThreads);
      const Item* src = reinterpret_cast<const Item*>(piece.src);
      copy_one_by_one<Item, kCount>(dst + l.slot.at, l.slot.begin, l.slot.end, [&](int j) {
        Source<Offset> from = l.in_one_row ? l.row : l.range;
        Offset unused = 0;
        if (l.in_one_row)
          walk(piece, kRank - 1, kRank, l.i + j, unused, from);
        else
          walk(piece, piece.slots.last, kRank, l.slot.first + j, unused, from);
        return from.none ? Item{} : load(src + from.at);
      });
    }
  }
}

// Items of a tile's side: its rows are whole sectors of memory, and more where items are small.
template <class Item>
constexpr int kSide = sizeof(Item) < 4 ? 64 : 32;

// Where the source's neighbours are another dimension's than the destination's: tiles of the two, turned in shared
// memory. The last dimension is the destination's, the last but one the source's.
template <class Item, class Offset, int kRank, int kMostPieces>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    copy_tiles(const __grid_constant__ Batch<Piece<Offset, kRank, false>, kMostPieces> batch) {
  constexpr int kTile = kSide<Item>, kRows = kThreads / kTile, kEach = kTile / kRows;
  constexpr int kPadding = sizeof(Item) < 4 ? 4 / int(sizeof(Item)) : 1;  // so that a column lies in different banks
  __shared__ Item tile[kTile][kTile + kPadding];
  const int x = int(threadIdx.x) % kTile, y = int(threadIdx.x) / kTile;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [piece, tile_number] = batch.chunk(chunk);
    const auto& column = piece.dims[kRank - 1];
    const auto& line = piece.dims[kRank - 2];
    const Tiles<Offset>& tiles = piece.tiles;
    const auto number = Offset(tile_number);
    const Offset of_line = tiles.columns.quotient(number), outer = tiles.lines.quotient(of_line);
    const Offset first_column = (number - of_line * Offset(tiles.columns.divisor)) * kTile;
    const Offset first_line = (of_line - outer * Offset(tiles.lines.divisor)) * kTile;
    const Offset columns_left = Offset(column.size.divisor) - first_column;
    const Offset lines_left = Offset(line.size.divisor) - first_line;
    const int columns = columns_left < kTile ? int(columns_left) : kTile;
    const int lines = lines_left < kTile ? int(lines_left) : kTile;
    Offset dst_at = first_column * column.dst_stride + first_line * line.dst_stride;
    Source<Offset> from{first_column * column.src_stride + first_line * line.src_stride};
    walk(piece, tiles.first, kRank - 2, outer, dst_at, from);
    const Item* src = reinterpret_cast<const Item*>(piece.src) + from.at + y * column.src_stride + x * line.src_stride;
    Item* dst = reinterpret_cast<Item*>(piece.dst) + dst_at + x * column.dst_stride + y * line.dst_stride;
    Item items[kEach] = {};
#pragma unroll
    for (int u = 0; u < kEach; ++u)
      if (x < lines && u * kRows < columns - y) items[u] = load(src + u * kRows * column.src_stride);
#pragma unroll
    for (int u = 0; u < kEach; ++u) tile[y + u * kRows][x] = items[u];
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kEach; ++u)
      if (x < columns && u * kRows < lines - y) store(dst + u * kRows * line.dst_stride, tile[x][y + u * kRows]);
    __syncthreads();
  }
}

constexpr std::size_t kUsualRank = 4, kMostRank = 8;

// `copy` as copies of at most kMostRank dimensions, one for each index of those that are too many, the smallest of all.
void append_peeled(const AffineCopy& copy, int64_t item_size, std::vector<AffineCopy>& to) {
  if (copy.dims.size() <= kMostRank) {
    to.push_back(copy);
    return;
  }
  const auto smallest = std::min_element(copy.dims.begin(), copy.dims.end() - 1,
                                         [](const CopyDim& x, const CopyDim& y) { return x.size < y.size; });
  const CopyDim outer = *smallest;
  AffineCopy inner = copy;
  inner.dims.erase(inner.dims.begin() + (smallest - copy.dims.begin()));
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
  bool tiles;
  Row row;
  std::size_t rank;
  int64_t reach;  // the largest offset of all copies
  Stream stream;
};

template <class Item, Row kRow, class Piece>
int64_t slots_of(const AffineCopy& copy, Piece& piece, int padding) {
  std::size_t first = copy.dims.size() - 1;  // of the dimensions that follow one another without gaps
  int64_t places = copy.dims.back().size;
  while (first > 0 && copy.dims[first - 1].dst_stride == places) places *= copy.dims[--first].size;
  int64_t ranges = 1, strides = 0;
  for (std::size_t k = 0; k < first; ++k) {
    ranges *= copy.dims[k].size;
    strides |= copy.dims[k].dst_stride;
  }
  piece.slots = decltype(piece.slots)::template of<Item, kSlotItems<Item, kRow>>(copy.dst, strides, places, ranges,
                                                                                 padding, padding + int(first));
  return int64_t(piece.slots.count);
}

template <class Item, class Piece>
int64_t tiles_of(const AffineCopy& copy, Piece& piece, int padding) {
  const auto tiles = [](int64_t size) { return (size + kSide<Item> - 1) / kSide<Item>; };
  const int64_t size = copy.dims.back().size, line_size = copy.dims[copy.dims.size() - 2].size;
  const int64_t columns = tiles(size), lines = tiles(line_size);
  using Offset = decltype(piece.dims[0].dst_stride);
  piece.tiles = {Divisor<Offset>(columns), Divisor<Offset>(lines), padding};
  return copy.numel() / (size * line_size) * columns * lines;
}

template <class Piece>
void set_dims(const AffineCopy& copy, Piece& piece, int padding) {
  using Offset = decltype(piece.dims[0].dst_stride);
  int k = 0;
  for (auto& to : piece.dims) {
    const CopyDim dim = k < padding ? plain_dim(1, 0, 0) : copy.dims[std::size_t(k - padding)];
    ++k;
    to.size = Divisor<Offset>(dim.size);
    to.dst_stride = Offset(dim.dst_stride);
    to.src_stride = Offset(dim.src_stride);
    if constexpr (requires { to.step; }) {
      to.begin = Offset(dim.begin);
      to.count = Offset(dim.count);
      to.step = Divisor<Offset>(dim.step);
    }
  }
}

template <class Item, class Offset, int kRank, Row kRow, bool kTiles, int kMostPieces>
void launch_batches(const Work& work) {
  Batch<Piece<Offset, kRank, kRow == Row::kWindowed>, kMostPieces> batch;
  batch.pieces = 0;
  batch.chunks = 0;
  batch.alike = true;
  int64_t slots = 0;
  for (const AffineCopy& copy : work.copies) slots += copy.numel() / kSlotItems<Item, kRow>;
  batch.per_chunk = kTiles ? 1 : per_chunk<Offset>(slots);
  for (std::size_t c = 0; c < work.copies.size(); ++c) {
    const AffineCopy& copy = work.copies[c];
    auto& piece = batch.piece[batch.pieces++];
    piece.dst = copy.dst;
    piece.src = copy.src;
    piece.readable = readable(copy, int64_t(sizeof(Item)));
    piece.first_chunk = batch.chunks;
    const int padding = kRank - int(copy.dims.size());
    set_dims(copy, piece, padding);
    int64_t units = 0;
    if constexpr (kTiles)
      units = tiles_of<Item>(copy, piece, padding);
    else
      units = slots_of<Item, kRow>(copy, piece, padding);
    const int64_t chunks = (units + batch.per_chunk - 1) / batch.per_chunk;
    batch.chunks = as_chunks(batch.chunks + chunks);
    batch.alike = batch.alike && batch.chunks == batch.pieces * chunks;
    batch.by_piece = Divisor<int32_t>(batch.pieces);
    if (batch.pieces < kMostPieces && c + 1 < work.copies.size()) continue;
    if constexpr (kTiles)
      launch("copy_tiles", copy_tiles<Item, Offset, kRank, kMostPieces>, blocks_for(batch.chunks), kThreads,
             work.stream, batch);
    else
      launch("copy_slots", copy_slots<Item, Offset, kRank, kRow, kMostPieces>, blocks_for(batch.chunks), kThreads,
             work.stream, batch);
    batch.pieces = 0;
    batch.chunks = 0;
    batch.alike = true;
  }
}

// One copy alone in little memory, which is less to send to the GPU; a few; or as many as new drivers take.
template <class Item, class Offset, int kRank, Row kRow, bool kTiles = false>
void launch_kind(const Work& work) {
  using Each = Piece<Offset, kRank, kRow == Row::kWindowed>;
  constexpr std::size_t kBeside = sizeof(Batch<Each, 1>) - sizeof(Each);
  constexpr int kFew = int((kMostParameterBytes - kBeside) / sizeof(Each));
  constexpr int kMany = int((kMostParameterBytesOfNewDrivers - kBeside) / sizeof(Each));
  const auto copies = int64_t(work.copies.size());
  // Several copies with windows come only from one of too many dimensions.
  if constexpr (kRow != Row::kWindowed) {
    // Nor do more than a few of tiles or 64 bits pay for kernels of their own.
    if constexpr (!kTiles && kRank == int(kUsualRank))
      if (copies > kFew && takes_many_parameters())
        return launch_batches<Item, Offset, kRank, kRow, kTiles, kMany>(work);
    if (copies > 1) return launch_batches<Item, Offset, kRank, kRow, kTiles, kFew>(work);
  }
  launch_batches<Item, Offset, kRank, kRow, kTiles, 1>(work);
}

template <class Item, class Offset, int kRank>
void launch_work(const Work& work) {
  if (work.tiles) return launch_kind<Item, Offset, kRank, Row::kStrided, true>(work);
  switch (work.row) {
    case Row::kDense:
      return launch_kind<Item, Offset, kRank, Row::kDense>(work);
    case Row::kStrided:
      return launch_kind<Item, Offset, kRank, Row::kStrided>(work);
    case Row::kNarrow:
      return launch_kind<Item, Offset, kRank, Row::kNarrow>(work);
    case Row::kWindowed:
      return launch_kind<Item, Offset, kRank, Row::kWindowed>(work);
  }
}

// What most items' rows are.
Row row_of(const std::vector<AffineCopy>& copies, int64_t item_size) {
  const int64_t vector = kMaxItemBytes / item_size;
  int64_t dense = 0, strided = 0, narrow = 0;
  for (const AffineCopy& copy : copies) {
    if (!std::all_of(copy.dims.begin(), copy.dims.end(), [](const CopyDim& d) { return d.reads_all(); }))
      return Row::kWindowed;
    const bool is_dense = std::abs(copy.dims.back().src_stride) == 1;
    const int64_t slot = is_dense ? vector : std::min<int64_t>(vector, 4);
    // Fewer than two slots' worth: then most slots are not whole.
    const bool is_narrow = slot > 1 && copy.dims.back().size < 2 * slot;
    (is_narrow ? narrow : is_dense ? dense : strided) += copy.numel();
  }
  if (narrow > dense + strided) return Row::kNarrow;
  return dense >= strided ? Row::kDense : Row::kStrided;
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

void execute(AffineCopies plan, Stream stream) {
  align_items(plan);
  int64_t vec_size = kMaxItemBytes;
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    vec_size = std::min(vec_size, max_vec_size(copy, plan.item_size, true));
  }
  Work work{{}, plan.item_size * vec_size, false, Row::kDense, 0, 0, stream};
  for (AffineCopy& copy : plan.copies) {
    vectorize(copy, vec_size);
    if (copy.dims.empty() || copy.dims.back().dst_stride != 1) copy.dims.push_back(plain_dim(1, 1, 1));
    append_peeled(copy, work.item_size, work.copies);
  }
  for (const AffineCopy& copy : work.copies) {
    int64_t dst = kMostPerBlock * kMaxItemBytes, src = 0;  // the last chunk counts past the end of its copy
    for (const CopyDim& dim : copy.dims) {
      add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
      add_reach(src, std::max<int64_t>(dim.count, 1), dim.src_stride);
    }
    work.reach = std::max({work.reach, dst, src, copy.numel() * 2 + kMostPerBlock * kMaxItemBytes});
    work.rank = std::max(work.rank, copy.dims.size());
  }
  work.row = row_of(work.copies, work.item_size);
  if (work.row == Row::kStrided) {
    std::vector<AffineCopy> arranged = work.copies;
    work.tiles = std::all_of(arranged.begin(), arranged.end(),
                             [&](AffineCopy& copy) { return arrange_tiles(copy, work.item_size); });
    if (work.tiles) work.copies = std::move(arranged);
  }
  with_item_type(work.item_size, [&](auto item) {
    using Item = decltype(item);
    if (work.reach <= largest_32_bit_offset() && work.rank <= kUsualRank)
      launch_work<Item, int32_t, int(kUsualRank)>(work);
    else
      launch_work<Item, int64_t, int(kMostRank)>(work);
  });
}

}  // namespace torch_dml_ops::cuda
