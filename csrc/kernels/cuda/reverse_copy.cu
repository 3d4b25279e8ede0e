#include "../reverse_copy.h"

#include <algorithm>

#include "device.h"

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
  LengthType length_type;
  Offset numel, axis_size, axis_src_stride;
  int axis;
  Dim dims[kRank];  // the axis has src_stride 0 here: where it reads depends on the length
};

template <class Offset, class T>
__device__ Offset clamped_length(const void* lengths, Offset at, Offset axis_size) {
  const T length = load(static_cast<const T*>(lengths) + at);
  if (length < 0) return 0;
  return uint64_t(length) < uint64_t(axis_size) ? Offset(length) : axis_size;
}

template <class Offset>
__device__ Offset length_at(const void* lengths, LengthType type, Offset at, Offset axis_size) {
  switch (type) {
    case LengthType::kInt32:
      return clamped_length<Offset, int32_t>(lengths, at, axis_size);
    case LengthType::kUInt32:
      return clamped_length<Offset, uint32_t>(lengths, at, axis_size);
    case LengthType::kUInt64:
      return clamped_length<Offset, uint64_t>(lengths, at, axis_size);
    case LengthType::kInt64:
      break;
  }
  return clamped_length<Offset, int64_t>(lengths, at, axis_size);
}

template <class Item, class Offset, int kRank>
__global__ void __launch_bounds__(kThreads) reverse_copy(const __grid_constant__ Reversal<Offset, kRank> move) {
  const Offset start = Offset(blockIdx.x) * kItemsPerBlock + Offset(threadIdx.x);
  Item items[kItemsPerThread];
  Offset places[kItemsPerThread];
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    Offset rest = start + u * kThreads, src = 0, at_length = 0, i = 0;
    places[u] = -1;
    if (rest >= move.numel) continue;
    places[u] = 0;
#pragma unroll
    for (int k = kRank - 1; k >= 0; --k) {
      const auto& dim = move.dims[k];
      Offset index = rest;
      if (k > 0) {
        rest = dim.size.quotient(rest);
        index -= rest * Offset(dim.size.divisor);
      }
      places[u] += index * dim.dst_stride;
      src += index * dim.src_stride;
      at_length += index * dim.length_stride;
      if (k == move.axis) i = index;
    }
    const Offset length = length_at<Offset>(move.lengths, move.length_type, at_length, move.axis_size);
    src += (i < length ? length - 1 - i : i) * move.axis_src_stride;
    items[u] = load(reinterpret_cast<const Item*>(move.src) + src);
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u)
    if (places[u] >= 0) store(reinterpret_cast<Item*>(move.dst) + places[u], items[u]);
}

constexpr std::size_t kMostRank = 8;

template <class Item, class Offset, int kRank>
void launch_reversal(const ReverseCopy& copy, Stream stream) {
  Reversal<Offset, kRank> move{};
  move.dst = copy.dst;
  move.src = copy.src;
  move.lengths = copy.lengths;
  move.length_type = copy.length_type;
  const ReverseDim& axis = copy.dims[copy.axis()];
  move.axis_size = Offset(axis.size);
  move.axis_src_stride = Offset(axis.src_stride);
  const int padding = kRank - int(copy.dims.size());
  move.axis = int(copy.axis()) + padding;
  for (int k = 0; k < kRank; ++k) {
    const ReverseDim dim = k < padding ? ReverseDim{1, 0, 0, 0, false} : copy.dims[std::size_t(k - padding)];
    move.dims[k] = {Divisor<Offset>(dim.size), Offset(dim.dst_stride), Offset(dim.is_axis ? 0 : dim.src_stride),
                    Offset(dim.length_stride)};
  }
  const int64_t numel = copy.numel();
  move.numel = Offset(numel);
  launch("reverse_copy", reverse_copy<Item, Offset, kRank>, (numel + kItemsPerBlock - 1) / kItemsPerBlock, kThreads,
         stream, move);
}

template <class Item, class Offset>
void launch_rank(const ReverseCopy& copy, Stream stream) {
  if (copy.dims.size() <= 4) return launch_reversal<Item, Offset, 4>(copy, stream);
  launch_reversal<Item, Offset, int(kMostRank)>(copy, stream);
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
  int64_t dst = kItemsPerBlock, src = 0, length = 0;  // the last block counts past the end
  for (const ReverseDim& dim : copy.dims) {
    add_reach(dst, dim.size, std::max<int64_t>(dim.dst_stride, 1));
    add_reach(src, dim.size, dim.src_stride);
    add_reach(length, dim.size, dim.length_stride);
  }
  const int64_t reach = std::max({dst, src, length, copy.numel() + kItemsPerBlock});
  with_item_type(copy.item_size, [&](auto item) {
    using Item = decltype(item);
    if (reach <= largest_32_bit_offset())
      launch_rank<Item, int32_t>(copy, stream);
    else
      launch_rank<Item, int64_t>(copy, stream);
  });
}

}  // namespace

void run(ReverseCopy plan, Stream stream) {
  align(plan);
  normalize(plan);
  widen(plan, items_per_wide_item(plan, true));
  run_peeled(plan, stream);
}

}  // namespace torch_dml_ops::cuda
