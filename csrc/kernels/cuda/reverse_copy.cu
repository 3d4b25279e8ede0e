// Reversals by length on a GPU.
//
// reverse_vectorized, for most reversals: vectors, threads and chunks as in copy_vectorized (affine_copy.cu). Vectors
// that lie within one row and on one side of its length are moved whole.
//
// reverse_panels, where each column has a length of its own:
//   panel   up to 64 columns by the whole axis, in shared memory: loaded row by row, and stored row by row from the
//           indices that the columns' lengths say
//   thread  one column of a panel, every (256 / columns)-th row; a block takes every gridDim.x-th panel
#include "../reverse_copy.h"

#include <algorithm>
#include <bit>

#include "device.h"
#include "dims.h"
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

// How many panels lie along the last dimension; dimensions [outer_dim, kRank - 2) come before the axis.
template <class Offset>
struct PanelPartition {
  FastDivmod<Offset> column_panels;
  int outer_dim;
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
  Bounds source_bounds;
  LengthType length_type;
  Offset axis_size, axis_src_stride;
  union {
    VecPartition<Offset> vecs;
    PanelPartition<Offset> panels;
  };
  uint32_t chunks;
  int vecs_per_chunk;  // or one panel
  int axis;
  bool vectorized;  // rows are contiguous in the source, and each has one length
  Dim dims[kRank];  // src_stride is 0 for the axis, along which the source depends on the length

  // Unravels the linear index `index` over dims [from, to) and adds the offsets.
  __device__ __forceinline__ void add_offsets(int from, int to, Offset index, Offsets& offsets) const {
#pragma unroll
    for (int k = kRank - 1; k >= 0; --k) {
      if (k < from || k >= to) continue;
      const Offset j = take_index(index, dims[k].size, k <= from);
      offsets.dst += j * dims[k].dst_stride;
      offsets.src += j * dims[k].src_stride;
      offsets.length += j * dims[k].length_stride;
      if (k == axis) offsets.axis_index = j;
    }
  }
};

template <class Offset, int kRank>
__device__ __forceinline__ Offset clamped_length_at(const ReverseParams<Offset, kRank>& params, Offset at) {
  uint64_t length = 0;
  bool negative = false;
  if (params.length_type == LengthType::kInt32 || params.length_type == LengthType::kUInt32) {
    const uint32_t given = load(static_cast<const uint32_t*>(params.lengths) + at);
    length = given;
    negative = params.length_type == LengthType::kInt32 && int32_t(given) < 0;
  } else {
    length = load(static_cast<const uint64_t*>(params.lengths) + at);
    negative = params.length_type == LengthType::kInt64 && int64_t(length) < 0;
  }
  if (negative) return 0;
  return length < uint64_t(params.axis_size) ? Offset(length) : params.axis_size;
}

template <class Offset>
__device__ Offset reversed_index(Offset length, Offset i) {
  return i < length ? length - 1 - i : i;
}

template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    reverse_vectorized(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  constexpr int kVecSize = kItemsPerVector<Item>;
  Item* dst = reinterpret_cast<Item*>(params.dst);
  const Item* src = reinterpret_cast<const Item*>(params.src);
  const bool along_axis = params.axis == kRank - 1;
  for (uint32_t chunk = blockIdx.x; chunk < params.chunks; chunk += gridDim.x) {
    const auto first = Offset(chunk) * params.vecs_per_chunk + Offset(threadIdx.x);
    UnalignedLoad<Item> loads[kVecsPerThread<Offset>];
    Offset at[kVecsPerThread<Offset>], from[kVecsPerThread<Offset>], i[kVecsPerThread<Offset>],
        length[kVecsPerThread<Offset>];
    uint32_t loaded = 0, reversed = 0, remaining = 0;  // a bit for each vector
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u) {
      if (u * kThreadsPerBlock >= params.vecs_per_chunk) break;
      const auto l = locate<Item, kVecSize>(params, first + u * kThreadsPerBlock);
      if (!l.vec.has_items()) continue;
      ReverseOffsets<Offset> first_item = l.row;
      params.add_offsets(kRank - 1, kRank, l.i, first_item);
      if (!params.vectorized || !l.in_one_row || !l.vec.is_full(kVecSize)) {
        remaining |= 1u << u;
        continue;
      }
      loaded |= 1u << u;
      at[u] = l.vec.offset;
      from[u] = first_item.src;
      i[u] = first_item.axis_index;
      length[u] = clamped_length_at(params, first_item.length);
    }
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u) {
      if ((loaded >> u & 1) == 0) continue;
      bool whole_vectors = true;
      if (!along_axis) {
        from[u] += reversed_index(length[u], i[u]) * params.axis_src_stride;
      } else if (i[u] + kVecSize <= length[u]) {
        from[u] += length[u] - i[u] - kVecSize;
        reversed |= 1u << u;
      } else {
        from[u] += i[u];
        whole_vectors = i[u] >= length[u];
      }
      const char* low = reinterpret_cast<const char*>(src + from[u]);
      if (whole_vectors && params.source_bounds.hold_vectors_at(low)) {
        loads[u].load_from(low);
      } else {
        loaded &= ~(1u << u);
        remaining |= 1u << u;
      }
    }
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u)
      if (loaded >> u & 1) store_items(dst + at[u], loads[u].items(reversed >> u & 1), 0, kVecSize);
    // Vectors at the ends of ranges, rows, lengths and of the source's memory, and lengths that differ item by item.
#pragma unroll 1
    for (int u = 0; remaining >> u != 0; ++u) {
      if ((remaining >> u & 1) == 0) continue;
      const auto l = locate<Item, kVecSize>(params, first + u * kThreadsPerBlock);
      copy_items<Item, kVecSize>(dst + l.vec.offset, l.vec.begin, l.vec.end, [&](int j) {
        ReverseOffsets<Offset> offsets = l.range;
        params.add_offsets(params.vecs.range_dim, kRank, l.vec.first + j, offsets);
        const Offset within = reversed_index(clamped_length_at(params, offsets.length), offsets.axis_index);
        return load(src + offsets.src + within * params.axis_src_stride);
      });
    }
  }
}

constexpr int kMaxPanelColumns = 64;

// The last dimension is the columns, the last but one the axis.
template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    reverse_panels(const __grid_constant__ ReverseParams<Offset, kRank> params) {
  __shared__ Offset lengths[kMaxPanelColumns];
  Item* panel = shared_memory<Item>();
  const auto& column = params.dims[kRank - 1];
  const auto& axis = params.dims[kRank - 2];
  const int bits = params.panels.log2_columns, columns = 1 << bits, rows = kThreadsPerBlock >> bits,
            size = int(params.axis_size);
  const int c = int(threadIdx.x) & (columns - 1), first_row = int(threadIdx.x) >> bits;
  for (uint32_t chunk = blockIdx.x; chunk < params.chunks; chunk += gridDim.x) {
    const auto [outer, panel_number] = params.panels.column_panels.divmod(Offset(chunk));
    const Offset first = panel_number * columns;
    ReverseOffsets<Offset> offsets{};
    params.add_offsets(params.panels.outer_dim, kRank - 2, outer, offsets);
    const bool in_bounds = first + c < Offset(column.size.divisor);
    const Item* src = reinterpret_cast<const Item*>(params.src) + offsets.src + (first + c) * column.src_stride;
    Item* dst = reinterpret_cast<Item*>(params.dst) + offsets.dst + (first + c) * column.dst_stride;
    if (int(threadIdx.x) < columns && in_bounds)
      lengths[threadIdx.x] = clamped_length_at(params, offsets.length + (first + c) * column.length_stride);
    if (in_bounds) {
#pragma unroll 8
      for (int i = first_row; i < size; i += rows)
        panel[(i << bits) + c] = load(src + Offset(i) * params.axis_src_stride);
    }
    __syncthreads();
    if (in_bounds) {
      const Offset length = lengths[c];
#pragma unroll 8
      for (int i = first_row; i < size; i += rows)
        store(dst + Offset(i) * axis.dst_stride, panel[(int(reversed_index(length, Offset(i))) << bits) + c]);
    }
    __syncthreads();
  }
}

// How many columns a panel has, 0 if reverse_vectorized is to be used.
int panel_columns(const ReverseCopy& copy) {
  const ReverseDim& column = copy.dims.back();
  const ReverseDim& axis = copy.dims[copy.axis()];
  if (column.is_axis || column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return 0;
  const int64_t sector = std::max<int64_t>(32 / copy.item_size, 1);  // in items; fewer columns would waste part of it
  const int64_t room = max_shared_bytes() - kMaxPanelColumns * int64_t(sizeof(int64_t));
  const int64_t strips = numel(copy.dims) / axis.size / column.size;
  const auto bytes = [&](int64_t columns) { return columns * axis.size * copy.item_size; };
  const auto panels = [&](int64_t columns) { return (column.size + columns - 1) / columns * strips; };
  // As many columns as leave room for three panels on an SM, so that one is read while another is written, and make two
  // panels for each SM. Below two sectors, room for two panels is enough.
  int64_t columns = std::min<int64_t>(kMaxPanelColumns, int64_t(std::bit_ceil(uint64_t(column.size))));
  while (columns > sector &&
         (bytes(columns) > room / (columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * sm_count()))
    columns /= 2;
  const bool idle = axis.size * columns < 2 * kThreadsPerBlock;  // less than two items for each thread
  return bytes(columns) > room || idle ? 0 : int(columns);
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
  params.source_bounds = source_bounds(copy.src, copy.dims, kItem);
  if (columns > 0) {
    const int64_t panels = (copy.dims.back().size + columns - 1) / columns;
    params.panels = {FastDivmod<Offset>(panels), padding, std::countr_zero(unsigned(columns))};
    params.chunks = checked_chunks(numel(copy.dims) / (copy.dims.back().size * axis.size) * panels);
    launch("reverse_panels", reverse_panels<Item, Offset, kRank>, grid_size(params.chunks), kThreadsPerBlock, stream,
           params, columns * axis.size * kItem);
    return;
  }
  params.vecs = VecPartition<Offset>::template of<Item, kItemsPerVector<Item>>(copy.dst, copy.dims, padding);
  const ReverseDim& row = copy.dims.back();
  params.vectorized = row.length_stride == 0 && row.src_stride == 1;
  params.vecs_per_chunk = vecs_per_chunk<Offset>(int64_t(params.vecs.count));
  params.chunks = checked_chunks((int64_t(params.vecs.count) + params.vecs_per_chunk - 1) / params.vecs_per_chunk);
  launch("reverse_vectorized", reverse_vectorized<Item, Offset, kRank>, grid_size(params.chunks), kThreadsPerBlock,
         stream, params);
}

void launch_part(const ReverseCopy& copy, Stream stream) {
  int64_t length = 0;
  for (const ReverseDim& dim : copy.dims) length += max_offset(dim.size, dim.length_stride);
  dispatch_item_size(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (std::max(index_bound(copy.dims), length) <= max_32_bit_index() && copy.dims.size() <= kSmallRank)
      launch_reversal<Item, int32_t, int(kSmallRank)>(copy, stream);
    else
      launch_reversal<Item, int64_t, int(kMaxRank)>(copy, stream);
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
