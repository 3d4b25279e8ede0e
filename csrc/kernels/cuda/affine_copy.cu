// Affine copies on a GPU: all copies of a plan in one launch, or a few if there are very many.
//
// copy_vectorized, for most copies:
//   vector  16 aligned bytes of the destination (fewer with a strided source), written by one store
//   thread  one vector of a chunk
//   chunk   256 vectors of one copy; a block takes one chunk
//
// copy_line, for large copies of one dimension whose destination has gaps, or whose items of less than 4 bytes do in
// the source:
//   vector  4 items of a destination without gaps, or a single item
//   thread  8 items of a chunk, in vectors that are 256 apart; a block takes one chunk
//
// copy_tiled, where the source is contiguous along another dimension than the destination:
//   tile    32 × 32 items (64 × 64 of less than 4 bytes) of these two dimensions, transposed in shared memory; or two
//           of half as many rows, side by side
//   word    an item, or as many as fill 4 bytes, if alignment allows it
//   thread  4 to 16 words of a tile; a block takes one tile
//
// copy_interleaved (interleaved.h), where short rows of several copies lie side by side in the destination or in the
// source.
#include "../affine_copy.h"

#include <algorithm>
#include <vector>

#include "access_pattern.h"
#include "copy_loads.h"
#include "copy_params.h"
#include "interleaved.h"
#include "launch.h"
#include "tiles.h"
#include "vec_partition.h"

namespace torch_dml_ops::cuda {
namespace {

template <class Item, AccessPattern kAccess>
constexpr int kVecSizeOf = [] {
  using enum AccessPattern;
  constexpr int kItems = kItemsPerVector<Item>;
  switch (kAccess) {
    case kContiguous:
    case kWindowed:
      return kItems;
    case kStridedWide:
      return std::min(8, kItems);
    case kWindowedStrided:
      return sizeof(Item) < 4 ? kItems : std::min(4, kItems);
    case kLineWithGaps:
      return 1;
    default:
      return std::min(4, kItems);
  }
}();

// Windows in many dimensions take as many registers as 64-bit offsets.
template <class Offset, int kRank, AccessPattern kAccess>
[[maybe_unused]] constexpr int kMinBlocksOf =
    kMinBlocksPerSM<std::conditional_t<is_windowed(kAccess) && (kRank > int(kMatrixRank)), int64_t, Offset>>;

template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksOf<Offset, kRank, kAccess>)
    copy_vectorized(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>;
  constexpr bool kWindowed = is_windowed(kAccess), kByVector = loads_vectors(kAccess);
  using OneByOne = std::conditional_t<kWindowed, WindowedStridedLoad<Item, kVecSize>, StridedLoad<Item, kVecSize>>;
  using Load = std::conditional_t<kByVector, ContiguousLoad<Item, kWindowed>, OneByOne>;
  const auto [copy, chunk] = batch.chunk(blockIdx.x);
  if (kMaxCopies > 1 && chunk == kNoChunk) return;
  const Offset number = Offset(chunk) * kThreadsPerBlock + Offset(threadIdx.x), range_size = copy.vecs.range_size;
  const auto locate_vec = [&, &copy = copy] { return locate<Item, kVecSize, may_span_rows(kAccess)>(copy, number); };
  Item* dst = reinterpret_cast<Item*>(copy.dst);
  Load vector;
  // Nothing to store: compilers take stores under a condition apart with 64-bit offsets.
  Offset at = 0, index = range_size;
  bool is_left = false;
  if (number < copy.vecs.count) {
    const auto v = locate_vec();
    if (kVecSize == 1 || v.index < range_size) {
      is_left = !vector.load_from(copy, v);
      if (!is_left) at = v.dst(), index = v.index;
    }
  }
  store_items(dst + at, vector.items(copy, index), -index, range_size - index);
  // Vectors at the ends of the source's memory, and rows that are not contiguous.
  if constexpr (kByVector) {
    if (!is_left) return;
    const auto v = locate_vec();
    copy_items<Item, kVecSize>(dst + v.dst(), -v.index, range_size - v.index, [&, &copy = copy](int j) {
      const auto& inner = copy.dims[kRank - 1];
      Offset i = v.i + j;
      if constexpr (kWindowed) {
        i -= inner.begin;
        if (v.row.outside || i < 0 || i >= inner.count) return Item{};
      }
      return load(reinterpret_cast<const Item*>(copy.src) + (v.row.src + i * inner.src_stride));
    });
  }
}

// Every copy has one dimension.
template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM<Offset>)
    copy_line(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  static_assert(kRank == 1);
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>, kVecs = kItemsPerThread / kVecSize;
  constexpr int kStep = kThreadsPerBlock * kVecSize;  // from one vector of a thread to the next, in items
  const auto [copy, number] = batch.chunk(blockIdx.x);
  if (kMaxCopies > 1 && number == kNoChunk) return;
  const auto& dim = copy.dims[0];
  const Offset first = Offset(number) * (kStep * kVecs) + Offset(threadIdx.x) * kVecSize;
  const Offset left = Offset(dim.size.divisor) - first;
  if (left <= 0) return;
  const Item* src = reinterpret_cast<const Item*>(copy.src) + first * dim.src_stride;
  Item* dst = reinterpret_cast<Item*>(copy.dst) + first * dim.dst_stride;
  const auto src_stride = int64_t(dim.src_stride), dst_stride = int64_t(dim.dst_stride);
  const int64_t src_step = kStep * src_stride, dst_step = kStep * dst_stride;
  if (left >= kStep * (kVecs - 1) + kVecSize) {
    Item items[kVecs][kVecSize];
#pragma unroll
    for (int k = 0; k < kVecs; ++k)
#pragma unroll
      for (int j = 0; j < kVecSize; ++j) items[k][j] = load(src + k * src_step + j * src_stride);
#pragma unroll
    for (int k = 0; k < kVecs; ++k) {
      if constexpr (kVecSize == 1) {
        store(dst + k * dst_step, items[k][0]);
      } else {
        const auto vector = to_vector(items[k]);
        store(reinterpret_cast<std::remove_const_t<decltype(vector)>*>(dst + k * kStep), vector);
      }
    }
  } else {
#pragma unroll 1
    for (int k = 0; k < kVecs; ++k)
#pragma unroll 1
      for (int j = k * kStep; j < k * kStep + kVecSize && j < left; ++j)
        store(dst + j * dst_stride, load(src + j * src_stride));
  }
}

// The destination is contiguous along the last dimension, the source along the last but one.
template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSM<Offset>)
    copy_tiled(const __grid_constant__ CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch) {
  constexpr int kPerWord = kAccess == AccessPattern::kTiledWords ? kItemsPerWord<Item> : 1;
  using Word = std::conditional_t<kPerWord == 1, Item, uint32_t>;
  constexpr int kSide = kTileSide<Item>, kWords = kSide / kPerWord, kRowsPerStep = kThreadsPerBlock / kWords;
  constexpr int kLoads = kWords / kRowsPerStep, kStores = kSide / kRowsPerStep;
  constexpr int kPadding = sizeof(Word) < 4 ? 4 / int(sizeof(Word)) : 1;  // puts a column into different banks
  __shared__ Word tile[kSide][kWords + kPadding];
  const int x = int(threadIdx.x) % kWords * kPerWord, y = int(threadIdx.x) / kWords;
  const auto [copy, tile_number] = batch.chunk(blockIdx.x);
  if (kMaxCopies > 1 && tile_number == kNoChunk) return;
  const auto& column = copy.dims[kRank - 1];
  const auto& row = copy.dims[kRank - 2];
  const TilePartition<Offset>& tiles = copy.tiles;
  const auto [tile_row, tile_column] = tiles.column_tiles.divmod(Offset(tile_number));
  const auto [outer, outer_row] = tiles.row_tiles.divmod(tile_row);
  const int lead = kPerWord > 1 ? tiles.lead : 0, folds = kPerWord > 1 ? tiles.folds : 0;
  const Offset first_column = tile_column * (kSide << folds), first_row = outer_row * kSide - lead;
  const Offset columns_left = Offset(column.size.divisor) - first_column;
  const Offset rows_left = Offset(row.size.divisor) - first_row;
  const int columns = columns_left < 2 * kSide ? int(columns_left) : 2 * kSide;
  const int begin = first_row < 0 ? -int(first_row) : 0, rows = rows_left < kSide ? int(rows_left) : kSide;
  CopyOffsets<Offset> at{first_column * column.dst_stride + first_row * row.dst_stride,
                         first_column * column.src_stride + first_row * row.src_stride};
  copy.template add_offsets<kRank - 2>(outer, at);
  // Word j of a square of kPerWord × kPerWord items lies in the source's row of column kPerWord · y + j, and one more
  // side of a tile along in the second half of a tile of two.
  const int folded = x >= kSide / 2 ? folds : 0;
  const int first_load = kPerWord * y + folded * kSide, load_row = x - folded * (kSide / 2);
  const Offset from = at.src + first_load * column.src_stride + load_row * row.src_stride;
  const auto src_stride = int64_t(column.src_stride);
  const Item* src = reinterpret_cast<const Item*>(copy.src) + from;
  const int loads = load_row < rows ? columns - first_load : 0;  // columns from the thread's first one on
  Word words[kLoads][kPerWord] = {};
  if (kPerWord == 1 || loads <= 0 ||
      (copy.vector_loads.include(from) &&
       copy.vector_loads.include(from + std::min(loads - 1, kSide - 1) * column.src_stride))) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u, src += kPerWord * (kRowsPerStep - 1) * src_stride)
#pragma unroll
      for (int j = 0; j < kPerWord; ++j, src += src_stride)
        if (kPerWord * u * kRowsPerStep < loads) words[u][j] = load(reinterpret_cast<const Word*>(src));
  } else {  // words at the ends of the source's memory
#pragma unroll
    for (int u = 0; u < kLoads; ++u, src += kPerWord * (kRowsPerStep - 1) * src_stride)
#pragma unroll
      for (int j = 0; j < kPerWord; ++j, src += src_stride)
        if (kPerWord * u * kRowsPerStep < loads) words[u][j] = load_items<Word>(src, begin - load_row, rows - load_row);
  }
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    transpose(words[u]);
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) tile[x + j][y + u * kRowsPerStep] = words[u][j];
  }
  __syncthreads();
  const auto dst_stride = int64_t(row.dst_stride);
  Item* dst = reinterpret_cast<Item*>(copy.dst) + at.dst + x * column.dst_stride + y * row.dst_stride;
  int row_at = y, column_at = x;
#pragma unroll
  for (int u = 0; u < kStores; ++u) {
    if (kPerWord > 1 && u == kStores / 2 && folds) {
      dst += kSide - kSide / 2 * dst_stride;
      row_at -= kSide / 2;
      column_at += kSide;
    }
    if (column_at < columns && row_at < rows && (kPerWord == 1 || row_at >= begin))
      store(reinterpret_cast<Word*>(dst), tile[y + u * kRowsPerStep][x / kPerWord]);
    dst += kRowsPerStep * dst_stride;
    row_at += kRowsPerStep;
  }
}

template <class Item, AccessPattern kAccess, class Params>
int64_t partition_into_tiles(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  constexpr int64_t kItemBytes = sizeof(Item), kWordBytes = 4;
  const auto tiles = [](int64_t size) { return (size + kTileSide<Item> - 1) / kTileSide<Item>; };
  const int64_t size = copy.dims.back().size, row_size = copy.dims[copy.dims.size() - 2].size;
  int64_t lead = 0;
  if constexpr (kAccess == AccessPattern::kTiledWords) {
    lead = int64_t(reinterpret_cast<uintptr_t>(copy.src) % kWordBytes) / kItemBytes;
    const Bounds bounds = source_bounds(copy.src, copy.dims, kItemBytes);
    params.vector_loads = VectorOffsets<Offset>::template of<kWordBytes>(copy.src, bounds, kItemBytes);
  }
  const bool folds = kAccess == AccessPattern::kTiledWords && lead + row_size <= kTileSide<Item> / 2;
  const int64_t column_tiles = folds ? tiles((size + 1) / 2) : tiles(size), row_tiles = tiles(lead + row_size);
  params.tiles = {FastDivmod<Offset>(column_tiles), FastDivmod<Offset>(row_tiles), int16_t(lead), int16_t(folds)};
  return numel(copy.dims) / (size * row_size) * column_tiles * row_tiles;
}

template <class Item, AccessPattern kAccess, class Params>
int64_t partition_into_vectors(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  constexpr int kVecSize = kVecSizeOf<Item, kAccess>;
  params.vecs = VecPartition<Offset>::template of<Item, kVecSize>(copy.dst, copy.dims, may_span_rows(kAccess));
  if (std::abs(copy.dims.back().src_stride) == 1) {
    const Bounds bounds = source_bounds(copy.src, copy.dims, int64_t(sizeof(Item)));
    params.vector_loads = VectorOffsets<Offset>::of(copy.src, bounds, int64_t(sizeof(Item)));
  }
  return int64_t(params.vecs.count);
}

template <class Params>
void set_dims(const AffineCopy& copy, Params& params) {
  using Offset = typename Params::Offset;
  const int padding = Params::kRank - int(copy.dims.size());
  if constexpr (Params::kRank > int(kMatrixRank)) params.first_dim = padding;
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

template <class Item, class Offset, int kRank, AccessPattern kAccess, int kMaxCopies>
void launch_batches(const CopyLaunches& launches) {
  constexpr const char* kName = is_tiled(kAccess) ? "copy_tiled" : is_line(kAccess) ? "copy_line" : "copy_vectorized";
  constexpr auto kKernel = [] {
    if constexpr (is_tiled(kAccess))
      return copy_tiled<Item, Offset, kRank, kAccess, kMaxCopies>;
    else if constexpr (is_line(kAccess))
      return copy_line<Item, Offset, kRank, kAccess, kMaxCopies>;
    else
      return copy_vectorized<Item, Offset, kRank, kAccess, kMaxCopies>;
  }();
  CopyBatch<CopyParams<Offset, kRank, kAccess>, kMaxCopies> batch;
  batch.copies = 0;
  constexpr int64_t kUnitsPerChunk = is_tiled(kAccess)  ? 1
                                     : is_line(kAccess) ? kThreadsPerBlock * kItemsPerThread
                                                        : kThreadsPerBlock;
  for (std::size_t c = 0; c < launches.copies.size(); ++c) {
    const AffineCopy& copy = launches.copies[c];
    auto& params = batch.copy[batch.copies];
    params = {};
    params.dst = copy.dst;
    params.src = copy.src;
    set_dims(copy, params);
    int64_t units = 0;
    if constexpr (is_tiled(kAccess))
      units = partition_into_tiles<Item, kAccess>(copy, params);
    else if constexpr (is_line(kAccess))
      units = numel(copy.dims);
    else
      units = partition_into_vectors<Item, kAccess>(copy, params);
    params.chunks = checked_chunks((units + kUnitsPerChunk - 1) / kUnitsPerChunk);
    ++batch.copies;
    if (batch.copies < kMaxCopies && c + 1 < launches.copies.size()) continue;
    launch<kKernel>(kName, set_order(batch), kThreadsPerBlock, launches.stream, batch);
    batch.copies = 0;
  }
}

// Parameters are sent to the GPU with each launch, used or not. So kernels exist for one copy, for as many as fit into
// what any driver allows, and for as many as newer drivers allow; in a matrix also for some in between.
template <class Item, class Offset, int kRank, AccessPattern kAccess>
void launch_access(const CopyLaunches& launches) {
  using Params = CopyParams<Offset, kRank, kAccess>;
  constexpr auto kCopiesIn = [](std::size_t bytes) {
    constexpr std::size_t kEach = sizeof(Params) + sizeof(uint32_t);  // with its place in a round
    constexpr std::size_t kFixedBytes = sizeof(CopyBatch<Params, 2>) - 2 * kEach + alignof(Params);
    return int((bytes - kFixedBytes) / kEach);
  };
  constexpr int kFew = kCopiesIn(kMaxParameterBytes), kSome = kCopiesIn(2 * kMaxParameterBytes),
                kMany = kCopiesIn(kMaxLargeParameterBytes);
  const auto copies = int64_t(launches.copies.size());
  // Several copies with windows occur only where a copy with too many dimensions was split: one launch each will do.
  if constexpr (is_line(kAccess)) {
    return launch_batches<Item, Offset, kRank, kAccess, kFew>(launches);
  } else {
    if constexpr (!is_windowed(kAccess)) {
      if constexpr (!is_tiled(kAccess)) {  // many copies in tiles are too rare for kernels of their own
        const bool large = copies > kFew && limits().large_kernel_parameters;
        if constexpr (kRank == int(kMatrixRank))
          if (large && copies <= kSome) return launch_batches<Item, Offset, kRank, kAccess, kSome>(launches);
        if (large) return launch_batches<Item, Offset, kRank, kAccess, kMany>(launches);
      }
      if (copies > 1) return launch_batches<Item, Offset, kRank, kAccess, kFew>(launches);
    }
    launch_batches<Item, Offset, kRank, kAccess, 1>(launches);
  }
}

template <class Item, class Offset, int kRank>
void launch_copies(const CopyLaunches& launches) {
  using enum AccessPattern;
  const auto try_access = [&]<AccessPattern kAccess>() {
    if (launches.access == kAccess) launch_access<Item, Offset, kRank, kAccess>(launches);
  };
  try_access.template operator()<kStrided>();
  if constexpr (sizeof(Item) < 4 && sizeof(Offset) == 4) try_access.template operator()<kStridedWide>();
  try_access.template operator()<kWindowedStrided>();
  if constexpr (sizeof(Item) < kMaxItemBytes) {
    try_access.template operator()<kContiguous>();
    try_access.template operator()<kWindowed>();
  }
  if constexpr (kRank == int(kMaxRank)) try_access.template operator()<kTiled>();
  if constexpr (kRank == int(kMaxRank) && sizeof(Offset) == 4 && kItemsPerWord<Item> > 1)
    try_access.template operator()<kTiledWords>();
}

}  // namespace

void execute(AffineCopies plan, Stream stream) {
  align_items(plan);
  int64_t vec_size = kMaxItemBytes;
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    vec_size = std::min(vec_size, max_vec_size(copy.dims, plan.item_size, copy.dst, copy.src));
  }
  CopyLaunches launches{{}, plan.item_size * vec_size, AccessPattern::kStrided, 0, 0, stream};
  for (AffineCopy& copy : plan.copies) {
    vectorize(copy.dims, vec_size);
    if (copy.dims.empty() || copy.dims.back().dst_stride != 1) copy.dims.push_back(plain_dim(1, 1, 1));
    split_outer_dims(copy, launches.item_size, [&](const AffineCopy& part) { launches.copies.push_back(part); });
  }
  for (const AffineCopy& copy : launches.copies) {
    launches.max_index = std::max(launches.max_index, index_bound(copy.dims));
    launches.rank = std::max(launches.rank, copy.dims.size());
  }
  const bool fits_32_bits = launches.max_index <= max_32_bit_index();
  launches.access = access_pattern(launches.copies, launches.item_size);
  if (fits_32_bits && try_interleaved(launches.copies, launches.item_size, stream)) return;
  if (launches.access == AccessPattern::kStrided && fits_32_bits) try_lines(launches);
  if (launches.access == AccessPattern::kStrided) {
    std::vector<AffineCopy> arranged = launches.copies;
    const auto all = [&](auto condition) { return std::all_of(arranged.begin(), arranged.end(), condition); };
    if (all([&](AffineCopy& copy) { return arrange_tiles(copy, launches.item_size); })) {
      const bool words =
          fits_32_bits && all([&](AffineCopy& copy) { return tiles_have_words(copy, launches.item_size); });
      launches.access = words ? AccessPattern::kTiledWords : AccessPattern::kTiled;
      launches.copies = std::move(arranged);
    }
  }
  if (launches.access == AccessPattern::kStrided && fits_32_bits) try_wide_vectors(launches);
  dispatch_item_size(launches.item_size, [&](auto item) {
    using Item = decltype(item);
    if constexpr (sizeof(Item) < kMaxItemBytes)
      if (launches.access == AccessPattern::kLineWithGaps)
        return launch_access<Item, int32_t, 1, AccessPattern::kLineWithGaps>(launches);
    if constexpr (sizeof(Item) < 4)
      if (launches.access == AccessPattern::kLine)
        return launch_access<Item, int32_t, 1, AccessPattern::kLine>(launches);
    if (!fits_32_bits)
      launch_copies<Item, int64_t, int(kMaxRank)>(launches);
    else if (launches.rank > kMatrixRank || is_tiled(launches.access))
      launch_copies<Item, int32_t, int(kMaxRank)>(launches);
    else
      launch_copies<Item, int32_t, int(kMatrixRank)>(launches);
  });
}

}  // namespace torch_dml_ops::cuda
