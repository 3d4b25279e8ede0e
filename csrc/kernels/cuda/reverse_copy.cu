// Reversals by length on a GPU.
//
// reverse_vectorized, for most reversals: vectors, threads and chunks as in copy_vectorized (affine_copy.cu). Vectors
// that lie on one side of their row's length are moved whole.
//
// reverse_panels, where each column has a length of its own:
//   panel   up to 64 columns by the whole axis, in shared memory: loaded row by row, and stored row by row from the
//           indices that the columns' lengths say
//   word    an item, or as many as fill 4 bytes, if alignment allows it
//   thread  one word of a panel's columns, in every so many rows; a block takes every gridDim.x-th panel
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
    PanelPartition<Offset> panels;
  };
  VectorOffsets<Offset> vector_loads;
  uint32_t chunks;
  int vecs_per_chunk;  // or one panel
  int axis;
  bool vectorized;  // rows are contiguous in the source, and each has one length
  Dim dims[kRank];  // src_stride is 0 for the axis, along which the source depends on the length

  // Unravels the linear index `index` over dims [0, kDims) and adds the offsets.
  template <int kDims>
  __device__ __forceinline__ void add_offsets(Offset index, Offsets& offsets) const {
#pragma unroll
    for (int k = kDims - 1; k >= 0; --k) {
      const Offset j = take_index(index, dims[k].size, k == 0);
      offsets.dst += j * dims[k].dst_stride;
      offsets.src += j * dims[k].src_stride;
      offsets.length += j * dims[k].length_stride;
      if (k == axis) offsets.axis_index = j;
    }
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

template <class Item, class Offset, int kRank, bool kAlongAxis>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    reverse_vectorized(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  constexpr int kVecSize = kItemsPerVector<Item>;
  Item* dst = reinterpret_cast<Item*>(params.dst);
  const Item* src = reinterpret_cast<const Item*>(params.src);
  const Offset range_size = params.vecs.range_size;
  const auto locate_vec = [&](Offset number) { return locate<Item, kVecSize, false>(params, number); };
  for (uint32_t chunk = blockIdx.x; chunk < params.chunks; chunk += gridDim.x) {
    const Offset chunk_begin = Offset(chunk) * params.vecs_per_chunk, first = chunk_begin + Offset(threadIdx.x);
    const Offset end = std::min(chunk_begin + params.vecs_per_chunk, params.vecs.count);
    UnalignedLoad<Item> loads[kVecsPerThread<Offset>];
    // Each has a value, because where one has none, compilers compute more of them at once than there are registers
    // for.
    Offset at[kVecsPerThread<Offset>] = {}, i[kVecsPerThread<Offset>] = {}, from[kVecsPerThread<Offset>] = {},
           axis_index[kVecsPerThread<Offset>] = {};
    uint64_t lengths[kVecsPerThread<Offset>] = {};
    uint32_t reversed = 0, remaining = 0;  // a bit for each vector
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u) {
      i[u] = range_size;  // nothing to move
      if (first + u * kThreadsPerBlock >= end) continue;
      const auto v = locate_vec(first + u * kThreadsPerBlock);
      if (kVecSize > 1 && v.i >= range_size) continue;
      if (!params.vectorized) {
        remaining |= 1u << u;
        continue;
      }
      at[u] = v.dst();
      i[u] = v.i;
      from[u] = v.row.src + v.i;
      axis_index[u] = v.row.axis_index;
      lengths[u] = params.load_length(v.row.length);
    }
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u) {
      if (i[u] >= range_size) continue;
      const Offset length = params.clamp_length(lengths[u]);
      bool one_by_one = false;
      if constexpr (!kAlongAxis) {
        from[u] += reversed_index(length, axis_index[u]) * params.axis_src_stride;
      } else if (std::min(i[u] + kVecSize, range_size) <= length) {
        from[u] += length - i[u] - kVecSize - i[u];
        reversed |= 1u << u;
      } else {
        one_by_one = std::max<Offset>(i[u], 0) < length;
      }
      if (!one_by_one && (kVecSize == 1 || params.vector_loads.include(from[u]))) {
        loads[u].load_from(src + from[u]);
      } else {
        i[u] = range_size;
        remaining |= 1u << u;
      }
    }
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u)
      store_items(dst + at[u], loads[u].items(reversed >> u & 1), -i[u], range_size - i[u]);
    // Vectors where lengths and the source's memory end, and rows that are not contiguous or have several lengths.
#pragma unroll 1
    for (; remaining != 0; remaining &= remaining - 1) {
      const int u = lowest_bit<kVecsPerThread<Offset>>(remaining);
      const auto v = locate_vec(first + u * kThreadsPerBlock);
      const auto& inner = params.dims[kRank - 1];
      if constexpr (kAlongAxis && kVecSize > 1 && sizeof(Offset) == 4) {
        // The end of a length: a reversed vector before it, and one that stays as it is after it. With 64-bit offsets
        // a compiler takes the store of both apart.
        if (params.vectorized) {
          const Offset length = params.clamped_length_at(v.row.length), from = v.row.src + v.i;
          const Offset from_reversed = v.row.src + length - kVecSize - v.i;
          if (params.vector_loads.include(from) && params.vector_loads.include(from_reversed)) {
            UnalignedLoad<Item> reversed_load, load;
            reversed_load.load_from(src + from_reversed);
            load.load_from(src + from);
            const Vector vector =
                select_items<Item>(Offset(0), length - v.i, reversed_load.items(true), load.items(false));
            store_items(dst + v.dst(), vector, -v.i, range_size - v.i);
            continue;
          }
        }
      }
      copy_items<Item, kVecSize>(dst + v.dst(), -v.i, range_size - v.i, [&](int j) {
        const Offset k = v.i + j, length = params.clamped_length_at(v.row.length + k * inner.length_stride);
        const Offset within = reversed_index(length, kAlongAxis ? k : v.row.axis_index);
        return load(src + (v.row.src + k * inner.src_stride + within * params.axis_src_stride));
      });
    }
  }
}

constexpr int kMaxPanelColumns = 64;

// The last dimension is the columns, the last but one the axis. If kWords, 4 bytes of columns are moved at once.
template <class Item, class Offset, int kRank, bool kWords>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
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
  for (uint32_t chunk = blockIdx.x; chunk < params.chunks; chunk += gridDim.x) {
    const auto [outer, panel_number] = params.panels.column_panels.divmod(Offset(chunk));
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
    __syncthreads();
  }
}

// Whether panels can be moved in words of 4 bytes: if no word is cut by an end, and none lies across an unaligned
// address.
bool panels_have_words(const ReverseCopy& copy, int columns) {
  constexpr int64_t kWordBytes = 4;
  CommonAlignment word(kWordBytes);
  word.include(copy.dst);
  word.include(copy.src);
  word.include(columns * copy.item_size);
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
  if (column.is_axis || column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return 0;
  const int64_t sector = std::max<int64_t>(32 / copy.item_size, 1);  // in items; fewer columns waste part of it
  const DeviceLimits& device = limits();
  const auto room = [&](int64_t panels_on_sm) {
    return device.dynamic_shared_bytes(panels_on_sm, kMaxPanelColumns * int64_t(sizeof(int64_t)));
  };
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
  for (int k = 0; k < kRank; ++k) {
    const ReverseDim dim = k < padding ? ReverseDim{1, 0, 0, 0, false} : copy.dims[std::size_t(k - padding)];
    params.dims[k] = {FastDivmod<Offset>(dim.size), Offset(dim.dst_stride), Offset(dim.is_axis ? 0 : dim.src_stride),
                      Offset(dim.length_stride)};
  }
  constexpr auto kItem = int64_t(sizeof(Item));
  params.vector_loads = VectorOffsets<Offset>::of(copy.src, source_bounds(copy.src, copy.dims, kItem), kItem);
  if (columns > 0) {
    const int64_t panels = (copy.dims.back().size + columns - 1) / columns;
    params.panels = {FastDivmod<Offset>(panels), std::countr_zero(unsigned(columns))};
    params.chunks = checked_chunks(numel(copy.dims) / (copy.dims.back().size * axis.size) * panels);
    const auto queue = [&]<bool kWords>() {
      launch<reverse_panels<Item, Offset, kRank, kWords>>("reverse_panels", grid_size(params.chunks), kThreadsPerBlock,
                                                          stream, params, columns * axis.size * kItem);
    };
    if constexpr (sizeof(Item) < 4 && sizeof(Offset) == 4)
      if (panels_have_words(copy, columns)) return queue.template operator()<true>();
    return queue.template operator()<false>();
  }
  params.vecs = VecPartition<Offset>::template of<Item, kItemsPerVector<Item>>(copy.dst, copy.dims, false);
  const ReverseDim& row = copy.dims.back();
  params.vectorized = row.length_stride == 0 && row.src_stride == 1;
  params.vecs_per_chunk = vecs_per_chunk(int64_t(params.vecs.count), kVecsPerThread<Offset>);
  params.chunks = checked_chunks((int64_t(params.vecs.count) + params.vecs_per_chunk - 1) / params.vecs_per_chunk);
  const auto queue = [&]<bool kAlongAxis>() {
    launch<reverse_vectorized<Item, Offset, kRank, kAlongAxis>>("reverse_vectorized", grid_size(params.chunks),
                                                                kThreadsPerBlock, stream, params);
  };
  if (params.axis == kRank - 1)
    queue.template operator()<true>();
  else
    queue.template operator()<false>();
}

void launch_part(const ReverseCopy& copy, Stream stream) {
  int64_t length = 0;
  for (const ReverseDim& dim : copy.dims) length += max_offset(dim.size, dim.length_stride);
  dispatch_item_size(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (std::max(index_bound(copy.dims), length) > max_32_bit_index() || copy.dims.size() > kSmallRank)
      launch_reversal<Item, int64_t, int(kMaxRank)>(copy, stream);
    else if (copy.dims.size() > kBatchRank)
      launch_reversal<Item, int32_t, int(kSmallRank)>(copy, stream);
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
