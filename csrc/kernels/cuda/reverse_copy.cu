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
  int per_chunk;  // slots; or one panel
  int axis;
  bool by_vectors;  // a row has one length, and its items follow one another
  int column_bits;  // the logarithm of a panel's columns
  Dim dims[kRank];  // the axis has src_stride 0 here: where it reads depends on the length
};

template <class Offset, int kRank>
__device__ __forceinline__ Offset length_at(const Reversal<Offset, kRank>& move, Offset at) {
  uint64_t length = 0;
  bool negative = false;
  if (move.length_type == LengthType::kInt32 || move.length_type == LengthType::kUInt32) {
    const uint32_t given = load(static_cast<const uint32_t*>(move.lengths) + at);
    length = given;
    negative = move.length_type == LengthType::kInt32 && int32_t(given) < 0;
  } else {
    length = load(static_cast<const uint64_t*>(move.lengths) + at);
    negative = move.length_type == LengthType::kInt64 && int64_t(length) < 0;
  }
  if (negative) return 0;
  return length < uint64_t(move.axis_size) ? Offset(length) : move.axis_size;
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

// Adds what dimensions [from, to) make of place `rest` of theirs.
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

// A slot and where its range begins and its first item is.
template <class Offset>
struct Located {
  Slot<Offset> slot;
  Place<Offset> range, first;
  bool in_one_row;  // of the last dimension
};

template <class Item, int kCount, class Offset, int kRank>
__device__ __forceinline__ Located<Offset> locate(const Reversal<Offset, kRank>& move, Offset number) {
  Located<Offset> l{};
  const Slots<Offset>& slots = move.slots;
  l.slot = slots.template slot<Item, kCount>(number, reinterpret_cast<const Item*>(move.dst), [&](Offset range) {
    walk(move, slots.first, slots.last, range, l.range);
    return l.range.dst;
  });
  if (!l.slot.exists()) return l;  // what follows could be out of all bounds
  l.first = l.range;
  const Divisor<Offset>& row_size = move.dims[kRank - 1].size;
  Offset i = l.slot.first;
  if (slots.last < kRank - 1) {
    const Offset outer = row_size.quotient(i);
    i -= outer * Offset(row_size.divisor);
    walk(move, slots.last, kRank - 1, outer, l.first);
  }
  walk(move, kRank - 1, kRank, i, l.first);
  l.in_one_row = i + (l.slot.end - l.slot.begin) <= Offset(row_size.divisor);
  return l;
}

template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    reverse_slots(const __grid_constant__ Reversal<Offset, kRank> move) {
  constexpr int kCount = kItemsPerVector<Item>;
  Item* dst = reinterpret_cast<Item*>(move.dst);
  const Item* src = reinterpret_cast<const Item*>(move.src);
  const bool along_axis = move.axis == kRank - 1;
  for (uint32_t chunk = blockIdx.x; chunk < move.chunks; chunk += gridDim.x) {
    const auto first = Offset(chunk) * move.per_chunk + Offset(threadIdx.x);
    Unaligned<Item> whole[kPerThread<Offset>];
    Offset at[kPerThread<Offset>], from[kPerThread<Offset>], i[kPerThread<Offset>], length[kPerThread<Offset>];
    uint32_t loaded = 0, turned = 0, others = 0;  // a bit for each
#pragma unroll
    for (int u = 0; u < kPerThread<Offset>; ++u) {
      if (u * kThreads >= move.per_chunk) break;
      const Located<Offset> l = locate<Item, kCount>(move, first + u * kThreads);
      if (!l.slot.exists()) continue;
      if (!move.by_vectors || !l.in_one_row || !l.slot.is_whole(kCount)) {
        others |= 1u << u;
        continue;
      }
      loaded |= 1u << u;
      at[u] = l.slot.at;
      from[u] = l.first.src;
      i[u] = l.first.i;
      length[u] = length_at(move, l.first.length);
    }
#pragma unroll
    for (int u = 0; u < kPerThread<Offset>; ++u) {
      if ((loaded >> u & 1) == 0) continue;
      bool whole_vectors = true;
      if (!along_axis) {
        from[u] += reversed_within(length[u], i[u]) * move.axis_src_stride;
      } else if (i[u] + kCount <= length[u]) {
        from[u] += length[u] - i[u] - kCount;
        turned |= 1u << u;
      } else {
        from[u] += i[u];
        whole_vectors = i[u] >= length[u];
      }
      const char* low = reinterpret_cast<const char*>(src + from[u]);
      if (whole_vectors && move.readable.has_vectors_at(low)) {
        whole[u].load_from(low);
      } else {
        loaded &= ~(1u << u);
        others |= 1u << u;
      }
    }
#pragma unroll
    for (int u = 0; u < kPerThread<Offset>; ++u)
      if (loaded >> u & 1) store_items(dst + at[u], whole[u].items(turned >> u & 1), 0, kCount);
    // The ends of rows and of lengths, rows shorter than a slot, and a length for every item.
#pragma unroll 1
    for (int u = 0; others >> u != 0; ++u) {
      if ((others >> u & 1) == 0) continue;
      const Located<Offset> l = locate<Item, kCount>(move, first + u * kThreads);
      copy_one_by_one<Item, kCount>(dst + l.slot.at, l.slot.begin, l.slot.end, [&](int j) {
        Place<Offset> place = l.range;
        walk(move, move.slots.last, kRank, l.slot.first + j, place);
        const Offset within = reversed_within(length_at(move, place.length), place.i);
        return load(src + place.src + within * move.axis_src_stride);
      });
    }
  }
}

constexpr int kMostPanelColumns = 64;

// Where every column has a length of its own: as many columns as fit into shared memory with their whole axis are read
// row by row, and written row by row from where their lengths say. The last dimension is the columns, the last but one
// the axis.
template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    reverse_panels(const __grid_constant__ Reversal<Offset, kRank> move) {
  __shared__ Offset lengths[kMostPanelColumns];
  Item* panel = shared_memory<Item>();
  const auto& column = move.dims[kRank - 1];
  const auto& axis = move.dims[kRank - 2];
  const int bits = move.column_bits, columns = 1 << bits, rows = kThreads >> bits, size = int(move.axis_size);
  const int c = int(threadIdx.x) & (columns - 1), first_row = int(threadIdx.x) >> bits;
  for (uint32_t chunk = blockIdx.x; chunk < move.chunks; chunk += gridDim.x) {
    const Offset outer = move.slots.per_range.quotient(Offset(chunk));
    const Offset first = (Offset(chunk) - outer * Offset(move.slots.per_range.divisor)) * columns;
    Place<Offset> place{};
    walk(move, move.slots.first, kRank - 2, outer, place);
    const bool there = first + c < Offset(column.size.divisor);
    const Item* src = reinterpret_cast<const Item*>(move.src) + place.src + (first + c) * column.src_stride;
    Item* dst = reinterpret_cast<Item*>(move.dst) + place.dst + (first + c) * column.dst_stride;
    if (int(threadIdx.x) < columns && there)
      lengths[threadIdx.x] = length_at(move, place.length + (first + c) * column.length_stride);
    if (there) {
#pragma unroll 8
      for (int i = first_row; i < size; i += rows)
        panel[(i << bits) + c] = load(src + Offset(i) * move.axis_src_stride);
    }
    __syncthreads();
    if (there) {
      const Offset length = lengths[c];
#pragma unroll 8
      for (int i = first_row; i < size; i += rows)
        store(dst + Offset(i) * axis.dst_stride, panel[(int(reversed_within(length, Offset(i))) << bits) + c]);
    }
    __syncthreads();
  }
}

constexpr std::size_t kUsualRank = 4, kMostRank = 8;

// How many columns a panel takes, 0 if panels do not serve.
int panel_columns(const ReverseCopy& copy) {
  const ReverseDim& column = copy.dims.back();
  const ReverseDim& axis = copy.dims[copy.axis()];
  if (column.is_axis || column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return 0;
  const int64_t sector = std::max<int64_t>(32 / copy.item_size, 1);  // fewer columns would read some of it in vain
  const int64_t room = most_shared_bytes() - kMostPanelColumns * int64_t(sizeof(int64_t));
  const int64_t strips = copy.numel() / axis.size / column.size;
  const auto bytes = [&](int64_t columns) { return columns * axis.size * copy.item_size; };
  const auto panels = [&](int64_t columns) { return (column.size + columns - 1) / columns * strips; };
  // As many as leave room for three panels on a multiprocessor, so that one is read while another is written, and make
  // panels for all multiprocessors; of two sectors as many as leave room for two panels.
  int64_t columns = std::min<int64_t>(kMostPanelColumns, int64_t(std::bit_ceil(uint64_t(column.size))));
  while (columns > sector &&
         (bytes(columns) > room / (columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * multiprocessors()))
    columns /= 2;
  const bool idle = axis.size * columns < 2 * kThreads;  // most threads
  return bytes(columns) > room || idle ? 0 : int(columns);
}

template <class Item, class Offset, int kRank>
void launch_reversal(ReverseCopy copy, Stream stream) {
  Reversal<Offset, kRank> move{};
  const int columns = panel_columns(copy);
  if (columns > 0) {
    move.column_bits = std::countr_zero(unsigned(columns));
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
  if (columns > 0) {
    const int64_t panels = (copy.dims.back().size + columns - 1) / columns;
    move.slots.per_range = Divisor<Offset>(panels);
    move.slots.first = padding;
    move.chunks = as_chunks(copy.numel() / (copy.dims.back().size * axis.size) * panels);
    launch("reverse_panels", reverse_panels<Item, Offset, kRank>, blocks_for(move.chunks), kThreads, stream, move,
           columns * axis.size * kItem);
    return;
  }
  std::size_t first = copy.dims.size() - 1;
  int64_t places = copy.dims.back().size, ranges = 1, outer_strides = 0;
  while (first > 0 && copy.dims[first - 1].dst_stride == places) places *= copy.dims[--first].size;
  for (std::size_t k = 0; k < first; ++k) {
    ranges *= copy.dims[k].size;
    outer_strides |= copy.dims[k].dst_stride;
  }
  move.slots = Slots<Offset>::template of<Item, kItemsPerVector<Item>>(copy.dst, outer_strides, places, ranges, padding,
                                                                       padding + int(first));
  const ReverseDim& row = copy.dims.back();
  move.by_vectors = row.length_stride == 0 && row.src_stride == 1;
  move.per_chunk = per_chunk<Offset>(int64_t(move.slots.count));
  move.chunks = as_chunks((int64_t(move.slots.count) + move.per_chunk - 1) / move.per_chunk);
  launch("reverse_slots", reverse_slots<Item, Offset, kRank>, blocks_for(move.chunks), kThreads, stream, move);
}

int64_t bytes_of(LengthType type) { return type == LengthType::kInt32 || type == LengthType::kUInt32 ? 4 : 8; }

// One launch for each index of the dimensions that are too many for one, the smallest of all.
void run_peeled(const ReverseCopy& copy, Stream stream) {
  if (copy.dims.size() > kMostRank) {
    std::size_t outer_at = copy.dims.front().is_axis ? 1 : 0;
    for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k)
      if (!copy.dims[k].is_axis && copy.dims[k].size < copy.dims[outer_at].size) outer_at = k;
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
  int64_t dst = kMostPerBlock * kMaxItemBytes, src = 0, length = 0;  // the last chunk counts past the end
  for (const ReverseDim& dim : copy.dims) {
    add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
    add_reach(src, dim.size, dim.src_stride);
    add_reach(length, dim.size, dim.length_stride);
  }
  const int64_t reach = std::max({dst, src, length, copy.numel() + kMostPerBlock * kMaxItemBytes});
  with_item_type(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (reach <= largest_32_bit_offset() && copy.dims.size() <= kUsualRank)
      launch_reversal<Item, int32_t, int(kUsualRank)>(copy, stream);
    else
      launch_reversal<Item, int64_t, int(kMostRank)>(copy, stream);
  });
}

}  // namespace

void execute(ReverseCopy plan, Stream stream) {
  align_items(plan);
  reorder_and_coalesce(plan);
  vectorize(plan, max_vec_size(plan, true));
  if (plan.dims.back().dst_stride != 1) plan.dims.push_back({1, 1, 1, 0, false});
  run_peeled(plan, stream);
}

}  // namespace torch_dml_ops::cuda
