// Affine copies on a GPU: all copies of a plan in one launch, or a few if there are very many.
//
// copy_vectorized, for most copies:
//   vector  16 aligned bytes of the destination (fewer with a strided source), written by one store
//   thread  up to 4 vectors of a chunk, 256 apart, so that neighbouring threads store neighbouring vectors
//   chunk   up to 256 · 4 vectors of one copy; a block takes every gridDim.x-th chunk of all copies
//
// copy_tiled, where the source is contiguous along another dimension than the destination:
//   tile    32 × 32 items (64 × 64 of less than 4 bytes) of these two dimensions, transposed in shared memory
//   thread  4 to 16 items of a tile; a block takes every gridDim.x-th tile
#include "../affine_copy.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "device.h"
#include "dims.h"
#include "vec_partition.h"
#include "vectors.h"

namespace torch_dml_ops::cuda {
namespace {

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

// How many tiles lie along the last two dimensions; dimensions [outer_dim, kRank - 2) come before them.
template <class Offset>
struct TilePartition {
  FastDivmod<Offset> column_tiles, row_tiles;
  int outer_dim;
};

// How most rows of the source are read, a row being what lies along the last dimension.
enum class AccessPattern {
  kContiguous,  // vector by vector, forwards or backwards
  kStrided,     // item by item into vectors
  kScalar,      // item by item, because rows are too short for vectors
  kWindowed,    // as kContiguous, but some indices are zero instead
};

// Where an item lies in destination and source, in items.
template <class Offset>
struct CopyOffsets {
  Offset dst = 0, src = 0;
  bool outside = false;  // of the window: it is zero and reads nothing
};

// One copy. If it has fewer than kRank dimensions, the outermost have size 1.
template <class Offset, int kRankOf, bool kWindowed>
struct CopyParams {
  static constexpr int kRank = kRankOf;
  using Offsets = CopyOffsets<Offset>;

  char* dst;
  const char* src;
  Bounds source_bounds;
  union {
    VecPartition<Offset> vecs;
    TilePartition<Offset> tiles;
  };
  uint32_t first_chunk;
  std::conditional_t<kWindowed, WindowDim<Offset>, Dim<Offset>> dims[kRank];

  // Unravels the linear index `index` over dims [from, to) and adds the offsets.
  __device__ __forceinline__ void add_offsets(int from, int to, Offset index, Offsets& offsets) const {
#pragma unroll
    for (int k = kRank - 1; k >= 0; --k) {
      if (k < from || k >= to) continue;
      const Offset j = take_index(index, dims[k].size, k <= from);
      const auto& dim = dims[k];
      offsets.dst += j * dim.dst_stride;
      if constexpr (kWindowed) {
        const Offset distance = j - dim.begin;
        const Offset q = distance < 0 ? 0 : dim.step.div(distance);
        const bool outside = distance < 0 || q * Offset(dim.step.divisor) != distance || q >= dim.count;
        offsets.outside |= outside;
        if (!outside) offsets.src += q * dim.src_stride;  // outside, it could overflow
      } else {
        offsets.src += j * dim.src_stride;
      }
    }
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
  uint32_t chunks;     // of all copies
  int vecs_per_chunk;  // or one tile
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

template <class Item, AccessPattern kAccess>
constexpr int kVecSizeOf = kAccess == AccessPattern::kScalar    ? 1
                           : kAccess == AccessPattern::kStrided ? std::min(4, kItemsPerVector<Item>)
                                                                : kItemsPerVector<Item>;

// The load of a full vector within one row of the source.
template <class Item, AccessPattern kAccess,
          bool kVectorized = kAccess == AccessPattern::kContiguous || kAccess == AccessPattern::kWindowed>
struct VecLoad {
  UnalignedLoad<Item> vector;

  // Issues the loads from index i of a row on. Returns false if the vector cannot be loaded in one piece.
  template <class Dim, class Offset>
  __device__ bool load_from(const Dim& inner, const Bounds& source_bounds, const char* src, CopyOffsets<Offset> from,
                            Offset i) {
    constexpr int kVecSize = kItemsPerVector<Item>;
    if constexpr (kAccess == AccessPattern::kWindowed) {
      i -= inner.begin;
      const auto step = Offset(inner.step.divisor);
      if (from.outside || i + kVecSize <= 0 || i > (inner.count - 1) * step) {
        vector.set_zero();
        return true;
      }
      if (step != 1 || i < 0 || i + kVecSize > inner.count) return false;
    }
    if (inner.src_stride != 1 && inner.src_stride != -1) return false;
    const Item* first = reinterpret_cast<const Item*>(src) + from.src;
    const char* low = reinterpret_cast<const char*>(inner.src_stride < 0 ? first - i - (kVecSize - 1) : first + i);
    if (!source_bounds.hold_vectors_at(low)) return false;
    vector.load_from(low);
    return true;
  }
  template <class Dim>
  __device__ auto items(const Dim& inner) const {
    return vector.items(inner.src_stride < 0);
  }
};

template <class Item, AccessPattern kAccess>
struct VecLoad<Item, kAccess, false> {
  AlignedVector<Item, kVecSizeOf<Item, kAccess>> loaded;

  template <class Dim, class Offset>
  __device__ bool load_from(const Dim& inner, const Bounds&, const char* src, CopyOffsets<Offset> from, Offset i) {
    const Item* first = reinterpret_cast<const Item*>(src) + (from.src + i * inner.src_stride);
#pragma unroll
    for (int j = 0; j < kVecSizeOf<Item, kAccess>; ++j) loaded.item[j] = load(first + j * inner.src_stride);
    return true;
  }
  template <class Dim>
  __device__ const auto& items(const Dim&) const {
    return loaded;
  }
};

template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM) copy_vectorized(
    const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess == AccessPattern::kWindowed>, kMaxCopies>
        batch) {
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [copy, number] = batch.chunk(chunk);
    const auto& inner = copy.dims[kRank - 1];
    const auto first = Offset(number) * batch.vecs_per_chunk + Offset(threadIdx.x);
    Item* dst = reinterpret_cast<Item*>(copy.dst);
    VecLoad<Item, kAccess> loads[kVecsPerThread<Offset>];
    Offset at[kVecsPerThread<Offset>];
    uint32_t loaded = 0, remaining = 0;  // a bit for each vector
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u) {
      if (u * kThreadsPerBlock >= batch.vecs_per_chunk) break;
      const auto l = locate<Item, kVecSize>(copy, first + u * kThreadsPerBlock);
      if (!l.vec.has_items()) continue;
      at[u] = l.vec.offset;
      if (l.in_one_row && l.vec.is_full(kVecSize) &&
          loads[u].load_from(inner, copy.source_bounds, copy.src, l.row, l.i))
        loaded |= 1u << u;
      else
        remaining |= 1u << u;
    }
#pragma unroll
    for (int u = 0; u < kVecsPerThread<Offset>; ++u)
      if (loaded >> u & 1) store_items(dst + at[u], loads[u].items(inner), 0, kVecSize);
    // Vectors at the ends of ranges, rows, windows and of the source's memory.
#pragma unroll 1
    for (int u = 0; remaining >> u != 0; ++u) {
      if ((remaining >> u & 1) == 0) continue;
      const auto l = locate<Item, kVecSize>(copy, first + u * kThreadsPerBlock);
      const Item* src = reinterpret_cast<const Item*>(copy.src);
      copy_items<Item, kVecSize>(dst + l.vec.offset, l.vec.begin, l.vec.end, [&](int j) {
        CopyOffsets<Offset> from = l.in_one_row ? l.row : l.range;
        if (l.in_one_row)
          copy.add_offsets(kRank - 1, kRank, l.i + j, from);
        else
          copy.add_offsets(copy.vecs.range_dim, kRank, l.vec.first + j, from);
        return from.outside ? Item{} : load(src + from.src);
      });
    }
  }
}

// A tile's side in items: a row of a tile is a whole number of the 32-byte sectors in which GPUs access memory.
template <class Item>
constexpr int kTileSide = sizeof(Item) < 4 ? 64 : 32;

// The destination is contiguous along the last dimension, the source along the last but one.
template <class Item, class Offset, int kRank, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM)
    copy_tiled(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, false>, kMaxCopies> batch) {
  constexpr int kSide = kTileSide<Item>, kRowsPerStep = kThreadsPerBlock / kSide, kSteps = kSide / kRowsPerStep;
  constexpr int kPadding =
      sizeof(Item) < 4 ? 4 / int(sizeof(Item)) : 1;  // puts the items of a column into different banks
  __shared__ Item tile[kSide][kSide + kPadding];
  const int x = int(threadIdx.x) % kSide, y = int(threadIdx.x) / kSide;
  for (uint32_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    const auto [copy, tile_number] = batch.chunk(chunk);
    const auto& column = copy.dims[kRank - 1];
    const auto& row = copy.dims[kRank - 2];
    const TilePartition<Offset>& tiles = copy.tiles;
    const auto [tile_row, tile_column] = tiles.column_tiles.divmod(Offset(tile_number));
    const auto [outer, outer_row] = tiles.row_tiles.divmod(tile_row);
    const Offset first_column = tile_column * kSide, first_row = outer_row * kSide;
    const Offset columns_left = Offset(column.size.divisor) - first_column;
    const Offset rows_left = Offset(row.size.divisor) - first_row;
    const int columns = columns_left < kSide ? int(columns_left) : kSide;
    const int rows = rows_left < kSide ? int(rows_left) : kSide;
    CopyOffsets<Offset> at{first_column * column.dst_stride + first_row * row.dst_stride,
                           first_column * column.src_stride + first_row * row.src_stride};
    copy.add_offsets(tiles.outer_dim, kRank - 2, outer, at);
    const Item* src = reinterpret_cast<const Item*>(copy.src) + at.src + y * column.src_stride + x * row.src_stride;
    Item* dst = reinterpret_cast<Item*>(copy.dst) + at.dst + x * column.dst_stride + y * row.dst_stride;
    Item items[kSteps] = {};
#pragma unroll
    for (int u = 0; u < kSteps; ++u)
      if (x < rows && u * kRowsPerStep < columns - y) items[u] = load(src + u * kRowsPerStep * column.src_stride);
#pragma unroll
    for (int u = 0; u < kSteps; ++u) tile[y + u * kRowsPerStep][x] = items[u];
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kSteps; ++u)
      if (x < columns && u * kRowsPerStep < rows - y)
        store(dst + u * kRowsPerStep * row.dst_stride, tile[x][y + u * kRowsPerStep]);
    __syncthreads();
  }
}

// Copies that one kernel executes, in one launch or more.
struct CopyLaunches {
  std::vector<AffineCopy> copies;
  int64_t item_size;
  bool tiles;
  AccessPattern access;
  std::size_t rank;
  int64_t max_index;  // of all copies, as index_bound says
  Stream stream;
};

template <class Item, class Params>
int64_t partition_into_tiles(const AffineCopy& copy, Params& params, int padding) {
  const auto tiles = [](int64_t size) { return (size + kTileSide<Item> - 1) / kTileSide<Item>; };
  const int64_t size = copy.dims.back().size, row_size = copy.dims[copy.dims.size() - 2].size;
  const int64_t column_tiles = tiles(size), row_tiles = tiles(row_size);
  using Offset = decltype(params.dims[0].dst_stride);
  params.tiles = {FastDivmod<Offset>(column_tiles), FastDivmod<Offset>(row_tiles), padding};
  return numel(copy.dims) / (size * row_size) * column_tiles * row_tiles;
}

template <class Params>
void set_dims(const AffineCopy& copy, Params& params, int padding) {
  using Offset = decltype(params.dims[0].dst_stride);
  int k = 0;
  for (auto& to : params.dims) {
    const CopyDim dim = k < padding ? plain_dim(1, 0, 0) : copy.dims[std::size_t(k - padding)];
    ++k;
    to.size = FastDivmod<Offset>(dim.size);
    to.dst_stride = Offset(dim.dst_stride);
    to.src_stride = Offset(dim.src_stride);
    if constexpr (requires { to.step; }) {
      to.begin = Offset(dim.begin);
      to.count = Offset(dim.count);
      to.step = FastDivmod<Offset>(dim.step);
    }
  }
}

template <class Item, class Offset, int kRank, AccessPattern kAccess, bool kTiles, int kMaxCopies>
void launch_batches(const CopyLaunches& launches) {
  CopyBatch<CopyParams<Offset, kRank, kAccess == AccessPattern::kWindowed>, kMaxCopies> batch;
  batch.copies = 0;
  batch.chunks = 0;
  batch.same_chunks = true;
  int64_t vecs = 0;
  for (const AffineCopy& copy : launches.copies) vecs += numel(copy.dims) / kVecSizeOf<Item, kAccess>;
  batch.vecs_per_chunk = kTiles ? 1 : vecs_per_chunk<Offset>(vecs);
  for (std::size_t c = 0; c < launches.copies.size(); ++c) {
    const AffineCopy& copy = launches.copies[c];
    auto& params = batch.copy[batch.copies++];
    params.dst = copy.dst;
    params.src = copy.src;
    params.source_bounds = source_bounds(copy.src, copy.dims, int64_t(sizeof(Item)));
    params.first_chunk = batch.chunks;
    const int padding = kRank - int(copy.dims.size());
    set_dims(copy, params, padding);
    int64_t units = 0;
    if constexpr (kTiles) {
      units = partition_into_tiles<Item>(copy, params, padding);
    } else {
      params.vecs = VecPartition<Offset>::template of<Item, kVecSizeOf<Item, kAccess>>(copy.dst, copy.dims, padding);
      units = int64_t(params.vecs.count);
    }
    const int64_t chunks = (units + batch.vecs_per_chunk - 1) / batch.vecs_per_chunk;
    batch.chunks = checked_chunks(batch.chunks + chunks);
    batch.same_chunks = batch.same_chunks && batch.chunks == batch.copies * chunks;
    batch.by_copy = FastDivmod<int32_t>(batch.copies);
    if (batch.copies < kMaxCopies && c + 1 < launches.copies.size()) continue;
    if constexpr (kTiles)
      launch("copy_tiled", copy_tiled<Item, Offset, kRank, kMaxCopies>, grid_size(batch.chunks), kThreadsPerBlock,
             launches.stream, batch);
    else
      launch("copy_vectorized", copy_vectorized<Item, Offset, kRank, kAccess, kMaxCopies>, grid_size(batch.chunks),
             kThreadsPerBlock, launches.stream, batch);
    batch.copies = 0;
    batch.chunks = 0;
    batch.same_chunks = true;
  }
}

// Kernels exist for one copy, whose parameters are quick to send to the GPU, for as many as fit into the parameters
// that any driver allows, and for as many as newer drivers allow.
template <class Item, class Offset, int kRank, AccessPattern kAccess, bool kTiles = false>
void launch_access(const CopyLaunches& launches) {
  using Params = CopyParams<Offset, kRank, kAccess == AccessPattern::kWindowed>;
  constexpr std::size_t kFixedBytes = sizeof(CopyBatch<Params, 1>) - sizeof(Params);
  constexpr int kFew = int((kMaxParameterBytes - kFixedBytes) / sizeof(Params));
  constexpr int kMany = int((kMaxLargeParameterBytes - kFixedBytes) / sizeof(Params));
  const auto copies = int64_t(launches.copies.size());
  // Several copies with windows occur only where a copy with too many dimensions was split: one launch each will do.
  if constexpr (kAccess != AccessPattern::kWindowed) {
    // Many copies in tiles or with 64-bit offsets are too rare for kernels of their own.
    if constexpr (!kTiles && kRank == int(kSmallRank))
      if (copies > kFew && has_large_kernel_parameters())
        return launch_batches<Item, Offset, kRank, kAccess, kTiles, kMany>(launches);
    if (copies > 1) return launch_batches<Item, Offset, kRank, kAccess, kTiles, kFew>(launches);
  }
  launch_batches<Item, Offset, kRank, kAccess, kTiles, 1>(launches);
}

template <class Item, class Offset, int kRank>
void launch_copies(const CopyLaunches& launches) {
  if (launches.tiles) return launch_access<Item, Offset, kRank, AccessPattern::kStrided, true>(launches);
  switch (launches.access) {
    case AccessPattern::kContiguous:
      return launch_access<Item, Offset, kRank, AccessPattern::kContiguous>(launches);
    case AccessPattern::kStrided:
      return launch_access<Item, Offset, kRank, AccessPattern::kStrided>(launches);
    case AccessPattern::kScalar:
      return launch_access<Item, Offset, kRank, AccessPattern::kScalar>(launches);
    case AccessPattern::kWindowed:
      return launch_access<Item, Offset, kRank, AccessPattern::kWindowed>(launches);
  }
}

// The pattern that suits most items of the copies.
AccessPattern access_pattern(const std::vector<AffineCopy>& copies, int64_t item_size) {
  const int64_t vector = kMaxItemBytes / item_size;
  int64_t contiguous = 0, strided = 0, scalar = 0;
  for (const AffineCopy& copy : copies) {
    if (!std::all_of(copy.dims.begin(), copy.dims.end(), [](const CopyDim& d) { return d.reads_all(); }))
      return AccessPattern::kWindowed;
    const bool is_contiguous = std::abs(copy.dims.back().src_stride) == 1;
    const int64_t vec_size = is_contiguous ? vector : std::min<int64_t>(vector, 4);
    // In rows of less than two vectors, most vectors would be partial.
    const bool is_scalar = vec_size > 1 && copy.dims.back().size < 2 * vec_size;
    (is_scalar ? scalar : is_contiguous ? contiguous : strided) += numel(copy.dims);
  }
  if (scalar > contiguous + strided) return AccessPattern::kScalar;
  return contiguous >= strided ? AccessPattern::kContiguous : AccessPattern::kStrided;
}

// Moves the dimension along which the source is contiguous next to the last one, along which the destination is.
// Returns false if there is none, or if one of the two is too short for tiles.
bool arrange_tiles(AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kMinSize = 8, kSectorBytes = 32;
  std::vector<CopyDim>& dims = copy.dims;
  if (dims.size() < 2 || dims.back().size < kMinSize || std::abs(dims.back().src_stride) * item_size < kSectorBytes)
    return false;
  const auto row = std::find_if(dims.begin(), dims.end() - 1, [&](const CopyDim& d) {
    return d.size >= kMinSize && (d.src_stride == 1 || d.src_stride == -1);
  });
  if (row == dims.end() - 1) return false;
  std::rotate(row, row + 1, dims.end() - 1);
  return true;
}

}  // namespace

void execute(AffineCopies plan, Stream stream) {
  align_items(plan);
  int64_t vec_size = kMaxItemBytes;
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    vec_size = std::min(vec_size, max_vec_size(copy.dims, plan.item_size, copy.dst, copy.src));
  }
  CopyLaunches launches{{}, plan.item_size * vec_size, false, AccessPattern::kContiguous, 0, 0, stream};
  for (AffineCopy& copy : plan.copies) {
    vectorize(copy.dims, vec_size);
    if (copy.dims.empty() || copy.dims.back().dst_stride != 1) copy.dims.push_back(plain_dim(1, 1, 1));
    split_outer_dims(copy, launches.item_size, [&](const AffineCopy& part) { launches.copies.push_back(part); });
  }
  for (const AffineCopy& copy : launches.copies) {
    launches.max_index = std::max(launches.max_index, index_bound(copy.dims));
    launches.rank = std::max(launches.rank, copy.dims.size());
  }
  launches.access = access_pattern(launches.copies, launches.item_size);
  if (launches.access == AccessPattern::kStrided) {
    std::vector<AffineCopy> arranged = launches.copies;
    launches.tiles = std::all_of(arranged.begin(), arranged.end(),
                                 [&](AffineCopy& copy) { return arrange_tiles(copy, launches.item_size); });
    if (launches.tiles) launches.copies = std::move(arranged);
  }
  dispatch_item_size(launches.item_size, [&](auto item) {
    using Item = decltype(item);
    if (launches.max_index <= max_32_bit_index() && launches.rank <= kSmallRank)
      launch_copies<Item, int32_t, int(kSmallRank)>(launches);
    else
      launch_copies<Item, int64_t, int(kMaxRank)>(launches);
  });
}

}  // namespace torch_dml_ops::cuda
