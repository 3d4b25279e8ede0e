// Reversals by length on a GPU.
//
// reverse_vectorized, for most reversals: vectors, threads and chunks as in copy_vectorized (affine_copy.cu).
//
// reverse_rows, where each row is reversed by itself:
//   vector  16 aligned bytes of the destination; those on one side of the row's length are moved whole
//   thread  up to 4 vectors of one row, which it shares with its neighbours: as many as a power of 2, up to 256. What
//           concerns the row, above all its length, is found out once for these vectors
//   chunk   as many rows, or parts of a long one, as 256 threads move; a block takes every gridDim.x-th chunk
//
// reverse_panels, where each column has a length of its own:
//   panel   up to 64 columns by the whole axis, in shared memory: loaded row by row, and stored row by row from the
//           indices that the columns' lengths say
//   word    an item, or as many as fill 4 bytes, if alignment allows it
//   thread  one word of a panel's columns, in every so many rows; a block takes one panel
#include "../reverse_copy.h"

#include <algorithm>
#include <bit>

#include "dims.h"
#include "launch.h"
#include "vec_partition.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {
namespace {

// The offsets of an item in destination and source, in items, and of its length, and its index along the axis. `src` is
// the offset at index 0 of the axis.
template <class Offset>
struct ReverseOffsets {
  Offset dst = 0, src = 0, length = 0, axis_index = 0;
};

// How many panels lie along the last dimension.
template <class Offset>
struct PanelPartition {
  FastDivmod<Offset> column_panels;
  int log2_columns;  // of a panel
};

// How rows are shared out among threads.
template <class Offset>
struct RowPartition {
  FastDivmod<Offset> parts_per_row;  // each moved by 2^log2_threads threads
  Offset count;                      // of all parts
  int log2_threads;
  uint32_t misalignment;  // how many items the destination begins past an aligned address
};

template <class Offset, int kRankOf>
struct ReverseParams {
  static constexpr int kRank = kRankOf;
  using Offsets = ReverseOffsets<Offset>;
  struct Dim {
    FastDivmod<Offset> size;
    Offset dst_stride, src_stride, length_stride;
  };

  char* dst;
  const char* src;
  const void* lengths;
  LengthType length_type;
  Offset axis_size, axis_src_stride;
  union {
    VecPartition<Offset> vecs;
    RowPartition<Offset> rows;
    PanelPartition<Offset> panels;
  };
  VectorOffsets<Offset> vector_loads;
  uint32_t chunks;
  int axis, first_dim;  // dims before it have size 1
  bool vectorized;      // rows are contiguous in the source, and each has one length
  Dim dims[kRank];      // src_stride is 0 for the axis, along which the source depends on the length

  // Unravels the linear index `index` over dims [0, kDims) and adds the offsets.
  template <int kDims>
  __device__ __forceinline__ void add_offsets(Offset index, Offsets& offsets) const {
    unravel<kDims>(dims, first_dim, index, [&](const auto& dim, Offset j, int k) {
      offsets.dst += j * dim.dst_stride;
      offsets.src += j * dim.src_stride;
      offsets.length += j * dim.length_stride;
      if (k == axis) offsets.axis_index = j;
    });
  }
  __device__ __forceinline__ void add_row_offsets(Offset row, Offsets& offsets) const {
    add_offsets<kRank - 1>(row, offsets);
  }

  // A length as 64 bits; clamp_length waits for it.
  __device__ __forceinline__ uint64_t load_length(Offset at) const {
    if (length_type == LengthType::kInt64 || length_type == LengthType::kUInt64)
      return load(static_cast<const uint64_t*>(lengths) + at);
    const uint32_t length = load(static_cast<const uint32_t*>(lengths) + at);
    return length_type == LengthType::kInt32 ? uint64_t(int64_t(int32_t(length))) : length;
  }
  __device__ __forceinline__ Offset clamp_length(uint64_t length) const {
    const bool is_signed = length_type == LengthType::kInt32 || length_type == LengthType::kInt64;
    if (is_signed && int64_t(length) < 0) return 0;
    return length < uint64_t(axis_size) ? Offset(length) : axis_size;
  }
  __device__ __forceinline__ Offset clamped_length_at(Offset at) const { return clamp_length(load_length(at)); }
};

template <class Offset>
__device__ Offset reversed_index(Offset length, Offset i) {
  return i < length ? length - 1 - i : i;
}

template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM<Offset>)
    reverse_vectorized(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  constexpr int kVecSize = kItemsPerVector<Item>;
  const Item* src = reinterpret_cast<const Item*>(params.src);
  Item* dst = reinterpret_cast<Item*>(params.dst);
  const Offset range_size = params.vecs.range_size;
  const Offset number = Offset(blockIdx.x) * kThreadsPerBlock + Offset(threadIdx.x);
  const auto locate_vec = [&] { return locate<Item, kVecSize, false>(params, number); };
  UnalignedLoad<Item> vector;
  Offset at = 0, i = range_size;  // nothing to store, as in copy_vectorized
  bool is_left = false;
  if (number < params.vecs.count) {
    const auto v = locate_vec();
    if (kVecSize == 1 || v.i < range_size) {
      is_left = true;
      if (params.vectorized) {
        const Offset length = params.clamped_length_at(v.row.length);
        const Offset from = v.row.src + v.i + reversed_index(length, v.row.axis_index) * params.axis_src_stride;
        if (kVecSize == 1 || params.vector_loads.include(from)) {
          vector.load_from(src + from);
          at = v.dst(), i = v.i;
          is_left = false;
        }
      }
    }
  }
  store_items(dst + at, vector.items(false), -i, range_size - i);
  if (!is_left) return;
  // Vectors at the ends of the source's memory, and rows that are not contiguous or have several lengths.
  const auto v = locate_vec();
  const auto& inner = params.dims[kRank - 1];
  copy_items<Item, kVecSize>(dst + v.dst(), -v.i, range_size - v.i, [&](int j) {
    const Offset k = v.i + j, length = params.clamped_length_at(v.row.length + k * inner.length_stride);
    const Offset within = reversed_index(length, params.axis == kRank - 1 ? k : v.row.axis_index);
    return load(src + (v.row.src + k * inner.src_stride + within * params.axis_src_stride));
  });
}

// How many vectors of a row a thread moves in reverse_rows, at most. It issues all of their loads before the first
// store waits for one, so that what concerns the row is worth its instructions. With 64-bit offsets there are registers
// for one.
template <class Offset>
constexpr int kRowVecs = sizeof(Offset) == 4 ? 4 : 1;
constexpr int kRowBlocks = 4;  // that an SM runs at once

// The axis is the last dimension, contiguous in the source.
template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreadsPerBlock, kRowBlocks)
    reverse_rows(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  using Unsigned = std::make_unsigned_t<Offset>;
  constexpr int kVecSize = kItemsPerVector<Item>, kVecs = kRowVecs<Offset>;
  const int log2_threads = params.rows.log2_threads, thread = int(threadIdx.x) & ((1 << log2_threads) - 1);
  const Offset size = params.axis_size, step = Offset(kVecSize) << log2_threads;
  for (uint32_t chunk = blockIdx.x; chunk < params.chunks; chunk += gridDim.x) {
    const Offset number = Offset(chunk) * (kThreadsPerBlock >> log2_threads) + Offset(threadIdx.x >> log2_threads);
    if (number >= params.rows.count) continue;
    const auto [row, part] = params.rows.parts_per_row.divmod(number);
    ReverseOffsets<Offset> at{};
    params.add_row_offsets(row, at);
    const Offset length = params.clamped_length_at(at.length);
    Item* dst = reinterpret_cast<Item*>(params.dst) + at.dst;
    const Item* src = reinterpret_cast<const Item*>(params.src) + at.src;
    // Unsigned, because past the end of a row it may overflow.
    const Unsigned lead = (params.rows.misalignment + uint32_t(at.dst)) % kVecSize;
    const Unsigned first = Unsigned(part * kVecs) * Unsigned(step) + Unsigned(thread) * kVecSize;
    UnalignedLoad<Item> loads[kVecs];
    uint32_t stored = 0, reversed = 0, remaining = 0;  // a bit for each vector
#pragma unroll
    for (int u = 0; u < kVecs; ++u) {
      const Unsigned past_lead = first + u * Unsigned(step);
      if (past_lead >= Unsigned(size) + lead) continue;
      const auto i = Offset(past_lead - lead);
      const bool is_reversed = std::min(i + kVecSize, size) <= length;
      const Offset from = is_reversed ? length - kVecSize - i : i;
      if ((is_reversed || std::max<Offset>(i, 0) >= length) &&
          (kVecSize == 1 || params.vector_loads.include(at.src + from))) {
        loads[u].load_from(src + from);
        reversed |= uint32_t(is_reversed) << u;
        stored |= 1u << u;
      } else {
        remaining |= 1u << u;
      }
    }
#pragma unroll
    for (int u = 0; u < kVecs; ++u) {
      auto i = Offset(first + u * Unsigned(step) - lead);
      if (!(stored >> u & 1)) {
        if constexpr (sizeof(Offset) == 4) continue;
        i = size;  // with nothing to store; a compiler takes stores under a condition apart with 64-bit offsets
      }
      store_items(dst + i, loads[u].items(reversed >> u & 1), -i, size - i);
    }
    // Vectors where the length and the source's memory end.
#pragma unroll 1
    for (; remaining != 0; remaining &= remaining - 1) {
      const auto i = Offset(first + Unsigned(lowest_bit<kVecs>(remaining)) * Unsigned(step) - lead);
      const Offset from_reversed = length - kVecSize - i;
      if constexpr (kVecSize > 1 && sizeof(Offset) == 4) {
        // A reversed vector before the end of the length, and one that stays as it is after it. With 64-bit offsets a
        // compiler takes the store of both apart.
        if (params.vector_loads.include(at.src + i) && params.vector_loads.include(at.src + from_reversed)) {
          UnalignedLoad<Item> reversed_load, load;
          reversed_load.load_from(src + from_reversed);
          load.load_from(src + i);
          const Vector vector = select_items<Item>(Offset(0), length - i, reversed_load.items(true), load.items(false));
          store_items(dst + i, vector, -i, size - i);
          continue;
        }
      }
      copy_items<Item, kVecSize>(dst + i, -i, size - i,
                                 [&](int j) { return load(src + reversed_index(length, i + j)); });
    }
  }
}

constexpr int kMaxPanelColumns = 64;
constexpr int64_t kPanelStaticBytes = kMaxPanelColumns * int64_t(sizeof(int64_t));  // of shared memory, at most

// The last dimension is the columns, the last but one the axis. If kWords, 4 bytes of columns are moved at once.
template <class Item, class Offset, int kRank, bool kWords>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM<Offset>)
    reverse_panels(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  using Word = std::conditional_t<kWords, uint32_t, Item>;
  constexpr int kPerWord = int(sizeof(Word) / sizeof(Item));
  __shared__ int mirrored[kMaxPanelColumns];  // where in the panel a column's item of row 0 is, before its length
  Item* panel = shared_memory<Item>();
  const auto& column = params.dims[kRank - 1];
  const auto& axis = params.dims[kRank - 2];
  const int bits = params.panels.log2_columns, columns = 1 << bits, words = columns / kPerWord,
            rows = kThreadsPerBlock * kPerWord >> bits, size = int(params.axis_size);
  const int c = (int(threadIdx.x) & (words - 1)) * kPerWord, first_row = int(threadIdx.x) * kPerWord >> bits;
  const auto [outer, panel_number] = params.panels.column_panels.divmod(Offset(blockIdx.x));
  const Offset first = panel_number * columns;
  ReverseOffsets<Offset> offsets{};
  params.template add_offsets<kRank - 2>(outer, offsets);
  const Offset columns_left = Offset(column.size.divisor) - first;
  const bool in_bounds = c < columns_left;
  const Item* src = reinterpret_cast<const Item*>(params.src) + offsets.src + (first + c) * column.src_stride;
  Item* dst = reinterpret_cast<Item*>(params.dst) + offsets.dst + (first + c) * column.dst_stride;
  if (int(threadIdx.x) < columns && Offset(threadIdx.x) < columns_left)
    mirrored[threadIdx.x] =
        ((int(params.clamped_length_at(offsets.length + (first + Offset(threadIdx.x)) * column.length_stride)) - 1)
         << bits) +
        int(threadIdx.x);
  if (in_bounds) {
#pragma unroll 8
    for (int i = first_row; i < size; i += rows)
      *reinterpret_cast<Word*>(panel + (i << bits) + c) =
          load(reinterpret_cast<const Word*>(src + Offset(i) * params.axis_src_stride));
  }
  __syncthreads();
  if (in_bounds) {
    int from[kPerWord];
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) from[j] = mirrored[c + j];
#pragma unroll 8 / kPerWord
    for (int i = first_row; i < size; i += rows) {
      Item items[kPerWord];
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) {
        const int reversed = from[j] - (i << bits);  // negative from the length on
        items[j] = panel[reversed >= 0 ? reversed : (i << bits) + c + j];
      }
      store(reinterpret_cast<Word*>(dst + Offset(i) * axis.dst_stride), to_word<Word>(items));
    }
  }
}

// Whether panels can be moved in words of 4 bytes: if no word is cut by an end, and none lies across an unaligned
// address.
bool panels_have_words(const ReverseCopy& copy) {
  constexpr int64_t kWordBytes = 4;
  CommonAlignment word(kWordBytes);
  word.include(copy.dst);
  word.include(copy.src);
  word.include(copy.dims.back().size * copy.item_size);
  for (std::size_t k = 0; k + 1 < copy.dims.size(); ++k) {
    word.include(copy.dims[k].dst_stride * copy.item_size);
    word.include(copy.dims[k].src_stride * copy.item_size);
  }
  return copy.item_size < kWordBytes && word.value() == kWordBytes;
}

// How many columns a panel has, 0 if reverse_vectorized is to be used.
int panel_columns(const ReverseCopy& copy) {
  const ReverseDim& column = copy.dims.back();
  const ReverseDim& axis = copy.dims[copy.axis()];
  if (column.is_axis || column.length_stride == 0 || column.src_stride != 1) return 0;
  const int64_t sector = std::max<int64_t>(32 / copy.item_size, 1);  // in items; fewer columns waste part of it
  const DeviceLimits& device = limits();
  const auto room = [&](int64_t panels_on_sm) { return device.dynamic_shared_bytes(panels_on_sm, kPanelStaticBytes); };
  const int64_t strips = numel(copy.dims) / axis.size / column.size;
  const auto bytes = [&](int64_t columns) { return columns * axis.size * copy.item_size; };
  const auto panels = [&](int64_t columns) { return (column.size + columns - 1) / columns * strips; };
  // As many columns as leave room for three panels on an SM, so that one is read while another is written, and make two
  // panels for each SM. Below two sectors, room for two panels is enough.
  int64_t columns = std::min<int64_t>(kMaxPanelColumns, int64_t(std::bit_ceil(uint64_t(column.size))));
  while (columns > sector &&
         (bytes(columns) > room(columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * device.sm_count))
    columns /= 2;
  // Waste is better than a load of a length for each item.
  while (columns > std::max<int64_t>(sector / 4, 1) && bytes(columns) > room(1)) columns /= 2;
  const bool idle = axis.size * columns < 2 * kThreadsPerBlock;  // less than two items for each thread
  return bytes(columns) > room(1) || idle ? 0 : int(columns);
}

// Shares out rows among so many threads that each has at most `vecs_per_thread` vectors of a row, unless the row has
// more than a block can move; but not so few that neighbours do not access a cache line together.
template <class Offset>
RowPartition<Offset> partition_rows(const VecPartition<Offset>& vecs, int64_t vecs_per_thread) {
  constexpr int64_t kLineVecs = 8;
  const auto per_row = int64_t(vecs.vecs_per_range.divisor);
  const auto threads_for = [](int64_t n) { return int64_t(std::bit_ceil(uint64_t(n))); };
  int64_t threads = threads_for((per_row + vecs_per_thread - 1) / vecs_per_thread);
  threads = std::clamp(threads, std::min(kLineVecs, threads_for(per_row)), int64_t(kThreadsPerBlock));
  const int64_t vecs_per_part = threads * kRowVecs<Offset>, parts = (per_row + vecs_per_part - 1) / vecs_per_part;
  return {FastDivmod<Offset>(parts), Offset(int64_t(vecs.count) / per_row * parts), std::countr_zero(uint64_t(threads)),
          vecs.misalignment};
}

template <class Item, class Offset, int kRank>
void launch_reversal(ReverseCopy copy, Stream stream) {
  ReverseParams<Offset, kRank> params{};
  const int columns = panel_columns(copy);
  if (columns > 0) {
    const auto axis = copy.dims.begin() + std::ptrdiff_t(copy.axis());
    std::rotate(axis, axis + 1, copy.dims.end() - 1);
  }
  params.dst = copy.dst;
  params.src = copy.src;
  params.lengths = copy.lengths;
  params.length_type = copy.length_type;
  const ReverseDim& axis = copy.dims[copy.axis()];
  params.axis_size = Offset(axis.size);
  params.axis_src_stride = Offset(axis.src_stride);
  const int padding = kRank - int(copy.dims.size());
  params.axis = int(copy.axis()) + padding;
  params.first_dim = padding;
  for (int k = 0; k < kRank; ++k) {
    const ReverseDim dim = k < padding ? ReverseDim{1, 0, 0, 0, false} : copy.dims[std::size_t(k - padding)];
    params.dims[k] = {FastDivmod<Offset>(dim.size), Offset(dim.dst_stride), Offset(dim.is_axis ? 0 : dim.src_stride),
                      Offset(dim.length_stride)};
  }
  constexpr auto kItem = int64_t(sizeof(Item));
  params.vector_loads = VectorOffsets<Offset>::of(copy.src, source_bounds(copy.src, copy.dims, kItem), kItem);
  const auto queue = [&]<auto kKernel>(const char* name, int64_t shared_bytes) {
    launch<kKernel>(name, params.chunks, kThreadsPerBlock, stream, params, shared_bytes);
  };
  if (columns > 0) {
    const int64_t panels = (copy.dims.back().size + columns - 1) / columns, shared_bytes = columns * axis.size * kItem;
    params.panels = {FastDivmod<Offset>(panels), std::countr_zero(unsigned(columns))};
    params.chunks = checked_chunks(numel(copy.dims) / (copy.dims.back().size * axis.size) * panels);
    const auto queue_panels = [&]<bool kWords>() {
      constexpr auto kKernel = reverse_panels<Item, Offset, kRank, kWords>;
      queue.template operator()<kKernel>("reverse_panels", shared_bytes);
    };
    if constexpr (sizeof(Item) < 4 && sizeof(Offset) == 4)
      if (panels_have_words(copy)) return queue_panels.template operator()<true>();
    return queue_panels.template operator()<false>();
  }
  const ReverseDim& row = copy.dims.back();
  params.vecs = VecPartition<Offset>::template of<Item, kItemsPerVector<Item>>(copy.dst, copy.dims, false);
  params.vectorized = row.length_stride == 0 && row.src_stride == 1;
  const auto vecs = int64_t(params.vecs.count);
  if (row.is_axis && params.vectorized) {
    constexpr auto kKernel = reverse_rows<Item, Offset, kRank>;
    // Fewer vectors a thread where that leaves few waves of blocks, and at most eight waves, which take what is left.
    const int64_t at_once = kRowBlocks * limits().sm_count;
    int64_t each = kRowVecs<Offset>;
    while (each > 1 && vecs <= ((each > 2 ? 4 : 1) * at_once - 1) * each * kThreadsPerBlock) each /= 2;
    params.rows = partition_rows(params.vecs, each);
    params.chunks = checked_chunks(((int64_t(params.rows.count) << params.rows.log2_threads) + kThreadsPerBlock - 1) /
                                   kThreadsPerBlock);
    return launch<kKernel>("reverse_rows", std::min<int64_t>(params.chunks, 8 * at_once), kThreadsPerBlock, stream,
                           params);
  }
  constexpr auto kKernel = reverse_vectorized<Item, Offset, kRank>;
  params.chunks = checked_chunks((vecs + kThreadsPerBlock - 1) / kThreadsPerBlock);
  queue.template operator()<kKernel>("reverse_vectorized", 0);
}

void launch_part(const ReverseCopy& copy, Stream stream) {
  int64_t length = 0;
  for (const ReverseDim& dim : copy.dims) length += max_offset(dim.size, dim.length_stride);
  dispatch_item_size(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (std::max(index_bound(copy.dims), length) > max_32_bit_index())
      launch_reversal<Item, int64_t, int(kMaxRank)>(copy, stream);
    else if (copy.dims.size() > kBatchRank)
      launch_reversal<Item, int32_t, int(kMaxRank)>(copy, stream);
    else
      launch_reversal<Item, int32_t, int(kBatchRank)>(copy, stream);
  });
}

}  // namespace

void execute(ReverseCopy plan, Stream stream) {
  align_items(plan);
  reorder_and_coalesce(plan.dims);
  const int64_t vec_size = max_vec_size(plan.dims, plan.item_size, plan.dst, plan.src);
  vectorize(plan.dims, vec_size);
  plan.item_size *= vec_size;
  if (plan.dims.back().dst_stride != 1) plan.dims.push_back({1, 1, 1, 0, false});
  split_outer_dims(plan, plan.item_size, [&](const ReverseCopy& part) { launch_part(part, stream); });
}

}  // namespace torch_dml_ops::cuda
