#include "../reverse_copy.h"

#include <algorithm>
#include <bit>

#include "device.h"
#include "slots.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {
namespace {

template <class Offset, int kRank>
struct Reversal {
  struct Dim {
    Divisor<Offset> size;
    Offset dst_stride, src_stride, length_stride;
  };
  char* dst;
  const char* src;
  const void* lengths;
  Range readable;
  LengthType length_type;
  Offset axis_size, axis_src_stride;
  Slots<Offset> slots;
  uint32_t chunks;
  int axis;
  int panel_columns;  // a power of two
  Dim dims[kRank];    // the axis has src_stride 0 here: where it reads depends on the length
};

template <class Offset, class T>
__device__ Offset clamped_length(const void* lengths, Offset at, Offset axis_size) {
  const T length = load(static_cast<const T*>(lengths) + at);
  if constexpr (std::is_signed_v<T>)
    if (length < 0) return 0;
  return uint64_t(length) < uint64_t(axis_size) ? Offset(length) : axis_size;
}

template <class Offset, int kRank>
__device__ Offset length_at(const Reversal<Offset, kRank>& move, Offset at) {
  switch (move.length_type) {
    case LengthType::kInt32:
      return clamped_length<Offset, int32_t>(move.lengths, at, move.axis_size);
    case LengthType::kUInt32:
      return clamped_length<Offset, uint32_t>(move.lengths, at, move.axis_size);
    case LengthType::kUInt64:
      return clamped_length<Offset, uint64_t>(move.lengths, at, move.axis_size);
    case LengthType::kInt64:
      break;
  }
  return clamped_length<Offset, int64_t>(move.lengths, at, move.axis_size);
}

template <class Offset>
__device__ Offset reversed_within(Offset length, Offset i) {
  return i < length ? length - 1 - i : i;
}

// Offsets of a place, and its index along the axis.
template <class Offset>
struct Place {
  Offset dst, src, length, i;
};

// Adds what dimensions [from, to) say of place `rest` of theirs.
template <class Offset, int kRank>
__device__ __forceinline__ void walk(const Reversal<Offset, kRank>& move, int from, int to, Offset rest,
                                     Place<Offset>& place) {
#pragma unroll
  for (int k = kRank - 1; k >= 0; --k) {
    if (k < from || k >= to) continue;
    const auto& dim = move.dims[k];
    Offset index = rest;
    if (k > from) {
      rest = dim.size.quotient(rest);
      index -= rest * Offset(dim.size.divisor);
    }
    place.dst += index * dim.dst_stride;
    place.src += index * dim.src_stride;
    place.length += index * dim.length_stride;
    if (k == move.axis) place.i = index;
  }
}

// Items [begin, end) of a slot whose first item is at index i of a row, the last dimension, all of them in that row.
template <class Item, class Offset, int kRank>
__device__ __forceinline__ Items<Item, kItemsPerVector<Item>> read_row(const Reversal<Offset, kRank>& move,
                                                                       const Place<Offset>& row, Offset i, int begin,
                                                                       int end) {
  constexpr int kCount = kItemsPerVector<Item>, kItem = int(sizeof(Item));
  const auto& dim = move.dims[kRank - 1];
  const Item* src = reinterpret_cast<const Item*>(move.src) + row.src;
  const bool whole = begin == 0 && end == kCount;
  Items<Item, kCount> items{};
  if (move.axis == kRank - 1) {
    const Offset length = length_at(move, row.length), stride = move.axis_src_stride;
    if (whole && stride == 1 && (i + kCount <= length || i >= length)) {
      const bool turned = i < length;
      const char* from = reinterpret_cast<const char*>(src + (turned ? length - i - kCount : i));
      if (move.readable.has_vectors_at(from)) {
        const Vector v = load_vector<kItem>(from);
        return as_items<Item>(turned ? turned_round<kItem>(v) : v);
      }
    }
    fill(items, begin, end, [&](int j) { return load(src + reversed_within(length, i + j) * stride); });
    return items;
  }
  if (dim.length_stride == 0) {
    const Offset along = reversed_within(length_at(move, row.length), row.i) * move.axis_src_stride;
    src += along + i * dim.src_stride;
    const char* from = reinterpret_cast<const char*>(src);
    if (whole && dim.src_stride == 1 && move.readable.has_vectors_at(from))
      return as_items<Item>(load_vector<kItem>(from));
    fill(items, begin, end, [&](int j) { return load(src + j * dim.src_stride); });
    return items;
  }
  fill(items, begin, end, [&](int j) {
    const Offset length = length_at(move, row.length + (i + j) * dim.length_stride);
    return load(src + (i + j) * dim.src_stride + reversed_within(length, row.i) * move.axis_src_stride);
  });
  return items;
}

template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreads) reverse_slots(const __grid_constant__ Reversal<Offset, kRank> move) {
  constexpr int kCount = kItemsPerVector<Item>;
  Item* dst = reinterpret_cast<Item*>(move.dst);
  const Item* src = reinterpret_cast<const Item*>(move.src);
  const Divisor<Offset>& row_size = move.dims[kRank - 1].size;
  for (uint32_t chunk = blockIdx.x; chunk < move.chunks; chunk += gridDim.x) {
    const Offset start = Offset(chunk) * kPerBlock + Offset(threadIdx.x);
    Items<Item, kCount> items[kPerThread];
    Slot<Offset> slots[kPerThread];
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      Slot<Offset>& slot = slots[u] = move.slots.slot(start + u * kThreads);
      if (slot.range < 0) continue;
      Place<Offset> range{};
      walk(move, 0, move.slots.outer, slot.range, range);
      move.slots.template place<Item, kCount>(slot, dst, range.dst);
      if (slot.begin >= slot.end) continue;
      Place<Offset> row = range;
      Offset i = slot.first;
      if (move.slots.outer < kRank - 1) {
        const Offset outer = row_size.quotient(i);
        i -= outer * Offset(row_size.divisor);
        walk(move, move.slots.outer, kRank - 1, outer, row);
      }
      if (i + (slot.end - slot.begin) <= Offset(row_size.divisor)) {
        items[u] = read_row<Item>(move, row, i, slot.begin, slot.end);
        continue;
      }
      // Places of two rows or more.
      fill(items[u], slot.begin, slot.end, [&](int j) {
        Place<Offset> place = range;
        walk(move, move.slots.outer, kRank, slot.first + j, place);
        const Offset length = length_at(move, place.length);
        return load(src + place.src + reversed_within(length, place.i) * move.axis_src_stride);
      });
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u)
      if (slots[u].begin < slots[u].end) store_items(dst + slots[u].at, items[u], slots[u].begin, slots[u].end);
  }
}

constexpr int kPanelBytes = 32 << 10, kMostPanelColumns = 64;

// Where every column has a length of its own: as many columns as fit into shared memory with their whole axis are read
// row by row, and written row by row from where their lengths say. The last dimension is the columns, the last but one
// the axis.
template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreads) reverse_panels(const __grid_constant__ Reversal<Offset, kRank> move) {
  __shared__ Item panel[kPanelBytes / int(sizeof(Item))];
  __shared__ Offset lengths[kMostPanelColumns];
  const auto& column = move.dims[kRank - 1];
  const auto& axis = move.dims[kRank - 2];
  const int columns = move.panel_columns, items = columns * int(move.axis_size);
  const int c = int(threadIdx.x) % columns, first_row = int(threadIdx.x) / columns, rows = kThreads / columns;
  for (uint32_t chunk = blockIdx.x; chunk < move.chunks; chunk += gridDim.x) {
    const Offset outer = move.slots.per_range.quotient(Offset(chunk));
    const Offset first = (Offset(chunk) - outer * Offset(move.slots.per_range.divisor)) * columns;
    Place<Offset> place{};
    walk(move, 0, kRank - 2, outer, place);
    const bool there = first + c < Offset(column.size.divisor);
    const Item* src = reinterpret_cast<const Item*>(move.src) + place.src + (first + c) * column.src_stride;
    Item* dst = reinterpret_cast<Item*>(move.dst) + place.dst + (first + c) * column.dst_stride;
    if (int(threadIdx.x) < columns && there)
      lengths[threadIdx.x] = length_at(move, place.length + (first + c) * column.length_stride);
    if (there) {
#pragma unroll 4
      for (int i = first_row; i * columns < items; i += rows)
        panel[i * columns + c] = load(src + Offset(i) * move.axis_src_stride);
    }
    __syncthreads();
    if (there) {
      const Offset length = lengths[c];
#pragma unroll 4
      for (int i = first_row; i * columns < items; i += rows)
        store(dst + Offset(i) * axis.dst_stride, panel[int(reversed_within(length, Offset(i))) * columns + c]);
    }
    __syncthreads();
  }
}

constexpr std::size_t kUsualRank = 4, kMostRank = 8;

// How many columns a panel takes, 0 if panels do not serve: fewer than a sector's would read all of them in vain.
int panel_columns(const ReverseCopy& copy) {
  constexpr int64_t kSectorBytes = 32;
  const ReverseDim& column = copy.dims.back();
  const ReverseDim& axis = copy.dims[copy.axis()];
  if (column.is_axis || column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return 0;
  const auto fit = uint64_t(kPanelBytes / (axis.size * copy.item_size));
  const auto columns = int64_t(std::min<uint64_t>(std::bit_floor(fit), kMostPanelColumns));
  return columns * copy.item_size < kSectorBytes ? 0 : int(columns);
}

template <class Item, class Offset, int kRank>
void launch_reversal(ReverseCopy copy, Stream stream) {
  Reversal<Offset, kRank> move{};
  move.panel_columns = panel_columns(copy);
  if (move.panel_columns) {
    const auto axis = copy.dims.begin() + std::ptrdiff_t(copy.axis());
    std::rotate(axis, axis + 1, copy.dims.end() - 1);
  }
  move.dst = copy.dst;
  move.src = copy.src;
  move.lengths = copy.lengths;
  move.length_type = copy.length_type;
  const ReverseDim& axis = copy.dims[copy.axis()];
  move.axis_size = Offset(axis.size);
  move.axis_src_stride = Offset(axis.src_stride);
  const int padding = kRank - int(copy.dims.size());
  move.axis = int(copy.axis()) + padding;
  int64_t low = 0, high = 0;
  for (int k = 0; k < kRank; ++k) {
    const ReverseDim dim = k < padding ? ReverseDim{1, 0, 0, 0, false} : copy.dims[std::size_t(k - padding)];
    move.dims[k] = {Divisor<Offset>(dim.size), Offset(dim.dst_stride), Offset(dim.is_axis ? 0 : dim.src_stride),
                    Offset(dim.length_stride)};
    (dim.src_stride < 0 ? low : high) += (dim.size - 1) * dim.src_stride;
  }
  constexpr auto kItem = int64_t(sizeof(Item));
  move.readable = {copy.src + low * kItem, copy.src + (high + 1) * kItem};
  if (move.panel_columns) {
    const int64_t panels = (copy.dims.back().size + move.panel_columns - 1) / move.panel_columns;
    move.slots.per_range = Divisor<Offset>(panels);
    move.chunks = uint32_t(copy.numel() / (copy.dims.back().size * axis.size) * panels);
    launch("reverse_panels", reverse_panels<Item, Offset, kRank>, std::min<int64_t>(move.chunks, most_blocks(kThreads)),
           kThreads, stream, move);
    return;
  }
  std::size_t first = copy.dims.size() - 1;
  int64_t places = copy.dims.back().size, ranges = 1, outer_strides = 0;
  while (first > 0 && copy.dims[first - 1].dst_stride == places) places *= copy.dims[--first].size;
  for (std::size_t k = 0; k < first; ++k) {
    ranges *= copy.dims[k].size;
    outer_strides |= copy.dims[k].dst_stride;
  }
  move.slots = Slots<Offset>::template of<Item, kItemsPerVector<Item>>(copy.dst, outer_strides, places, ranges,
                                                                       padding + int(first));
  move.chunks = uint32_t((int64_t(move.slots.count) + kPerBlock - 1) / kPerBlock);
  launch("reverse_slots", reverse_slots<Item, Offset, kRank>, std::min<int64_t>(move.chunks, most_blocks(kThreads)),
         kThreads, stream, move);
}

int64_t bytes_of(LengthType type) { return type == LengthType::kInt32 || type == LengthType::kUInt32 ? 4 : 8; }

// One launch for each index of the dimensions that are too many for one.
void run_peeled(const ReverseCopy& copy, Stream stream) {
  if (copy.dims.size() > kMostRank) {
    const std::size_t outer_at = copy.dims.front().is_axis ? 1 : 0;
    const ReverseDim outer = copy.dims[outer_at];
    ReverseCopy inner = copy;
    inner.dims.erase(inner.dims.begin() + std::ptrdiff_t(outer_at));
    for (int64_t j = 0; j < outer.size; ++j) {
      inner.dst = copy.dst + j * outer.dst_stride * copy.item_size;
      inner.src = copy.src + j * outer.src_stride * copy.item_size;
      inner.lengths = static_cast<const char*>(copy.lengths) + j * outer.length_stride * bytes_of(copy.length_type);
      run_peeled(inner, stream);
    }
    return;
  }
  int64_t dst = kPerBlock * kWidestItem, src = 0, length = 0;  // the last chunk counts past the end
  for (const ReverseDim& dim : copy.dims) {
    add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
    add_reach(src, dim.size, dim.src_stride);
    add_reach(length, dim.size, dim.length_stride);
  }
  const int64_t reach = std::max({dst, src, length, copy.numel() + kPerBlock * kWidestItem});
  with_item_type(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (reach <= largest_32_bit_offset() && copy.dims.size() <= kUsualRank)
      launch_reversal<Item, int32_t, int(kUsualRank)>(copy, stream);
    else
      launch_reversal<Item, int64_t, int(kMostRank)>(copy, stream);
  });
}

}  // namespace

void run(ReverseCopy plan, Stream stream) {
  align(plan);
  normalize(plan);
  widen(plan, items_per_wide_item(plan, true));
  if (plan.dims.back().dst_stride != 1) plan.dims.push_back({1, 1, 1, 0, false});
  run_peeled(plan, stream);
}

}  // namespace torch_dml_ops::cuda
