// How the items of affine copies are accessed, and which way suits the copies of a plan.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

#include "../affine_copy.h"
#include "dims.h"
#include "launch.h"

namespace torch_dml_ops::cuda {

// How the items of most copies are accessed, where a row is what lies along the last dimension.
enum class AccessPattern {
  kContiguous,       // rows of the source vector by vector, forwards or backwards
  kStrided,          // rows item by item into vectors
  kStridedWide,      // as kStrided, into wider vectors
  kWindowed,         // as kContiguous, but what lies outside the window is zero
  kWindowedStrided,  // as kStrided, with a window
  kTiled,            // in tiles, item by item
  kTiledWords,       // in tiles, several items at a time
  kLine,             // as kStrided, but there is one row
  kLineWithGaps,     // item by item, along the only dimension
  kJoined,           // short rows of every copy, which are together those of the destination
  kParted,           // or of the source
};

constexpr bool is_windowed(AccessPattern access) {
  return access == AccessPattern::kWindowed || access == AccessPattern::kWindowedStrided;
}
constexpr bool is_line(AccessPattern access) {
  return access == AccessPattern::kLine || access == AccessPattern::kLineWithGaps;
}
constexpr bool may_span_rows(AccessPattern access) {
  return access == AccessPattern::kStrided || access == AccessPattern::kStridedWide;
}
constexpr bool loads_vectors(AccessPattern access) {
  return access == AccessPattern::kContiguous || access == AccessPattern::kWindowed;
}
constexpr bool is_tiled(AccessPattern access) {
  return access == AccessPattern::kTiled || access == AccessPattern::kTiledWords;
}
constexpr bool is_interleaved(AccessPattern access) {
  return access == AccessPattern::kJoined || access == AccessPattern::kParted;
}

// How many items of a chunk a thread moves in copy_line.
constexpr int kItemsPerThread = 8;

// Copies that one kernel executes, in one launch or more.
struct CopyLaunches {
  std::vector<AffineCopy> copies;
  int64_t item_size;
  AccessPattern access;
  std::size_t rank;
  int64_t max_index;  // of all copies, as index_bound says
  Stream stream;
};

// The pattern that suits most items of the copies.
inline AccessPattern access_pattern(const std::vector<AffineCopy>& copies, int64_t item_size) {
  bool windowed = false, steps = false;
  int64_t contiguous = 0, strided = 0;
  for (const AffineCopy& copy : copies) {
    windowed =
        windowed || !std::all_of(copy.dims.begin(), copy.dims.end(), [](const CopyDim& d) { return d.reads_all(); });
    // In short rows most vectors would be partial: in those of less than two vectors or, of items of one byte, less
    // than one and a half, except for whole ones. An item of 16 bytes is a vector by itself.
    const CopyDim& row = copy.dims.back();
    const int64_t bytes = row.size * item_size;
    const bool is_long =
        bytes >= 2 * kMaxItemBytes || (item_size == 1 && (bytes >= kMaxItemBytes * 3 / 2 || bytes == kMaxItemBytes));
    const bool is_contiguous = std::abs(row.src_stride) == 1 && item_size < kMaxItemBytes && is_long;
    steps = steps || row.step != 1;
    (is_contiguous ? contiguous : strided) += numel(copy.dims);
  }
  using enum AccessPattern;
  if (contiguous > strided && !steps) return windowed ? kWindowed : kContiguous;
  return windowed ? kWindowedStrided : kStrided;
}

// How many bytes copy_interleaved moves in a chunk at most, and of how many copies.
constexpr int64_t kChunkBytes = 16 << 10, kMaxInterleaved = 128, kFewInterleaved = 32;

// How many rows are in a chunk of copy_interleaved: a power of 2 that leaves four chunks for each SM, if that is a
// whole number of vectors, and 64 bytes of every copy; 0 where this is not possible, or is less than a chunk for each.
inline int64_t interleaved_rows(int64_t rows, int64_t row_bytes, int64_t copies, int64_t item_size) {
  constexpr int64_t kPieceBytes = 64;
  const auto least = int64_t(std::bit_ceil(
      uint64_t(std::max({kMaxItemBytes / item_size, (kPieceBytes + row_bytes - 1) / row_bytes, int64_t(1)}))));
  int64_t result = int64_t(std::bit_floor(uint64_t(kChunkBytes / (row_bytes * copies))));
  while (result > least && rows < 4 * result * limits().sm_count) result /= 2;
  return result < least || rows < result * limits().sm_count ? 0 : result;
}

// Chooses copy_interleaved where rows of all copies, too short to be moved by themselves, lie side by side in the
// destination or in the source, and one behind another on the other side.
inline void try_interleaved(CopyLaunches& launches) {
  constexpr int64_t kLong = 128;  // bytes
  const auto& copies = launches.copies;
  const auto count = int64_t(copies.size());
  if (count < 2 || count > (limits().large_kernel_parameters ? kMaxInterleaved : kFewInterleaved)) return;
  struct Rows {
    int64_t count, size, dst_stride, src_stride;
    bool operator==(const Rows&) const = default;
  };
  const auto rows_of = [](const AffineCopy& copy) {
    const CopyDim &first = copy.dims.front(), &last = copy.dims.back();
    const bool single = copy.dims.size() == 1;
    const bool plain =
        first.reads_all() && last.reads_all() && (single || (last.dst_stride == 1 && last.src_stride == 1));
    if (copy.dims.size() > 2 || !plain) return Rows{};
    return Rows{first.size, single ? 1 : last.size, first.dst_stride, first.src_stride};
  };
  const Rows rows = rows_of(copies[0]);
  const int64_t row_bytes = rows.size * launches.item_size, whole = rows.size * count;
  if (rows.size == 0 || row_bytes >= kLong || !interleaved_rows(rows.count, row_bytes, count, launches.item_size))
    return;
  bool joined = rows.dst_stride == whole && rows.src_stride == rows.size;
  bool parted = rows.src_stride == whole && rows.dst_stride == rows.size;
  for (int64_t k = 0; k < count; ++k) {
    const AffineCopy& copy = copies[std::size_t(k)];
    joined = joined && rows_of(copy) == rows && copy.dst == copies[0].dst + k * row_bytes;
    parted = parted && rows_of(copy) == rows && copy.src == copies[0].src + k * row_bytes;
  }
  if (!joined && !parted) return;
  launches.access = joined ? AccessPattern::kJoined : AccessPattern::kParted;
  launches.rank = kMatrixRank;
  for (AffineCopy& copy : launches.copies)
    if (copy.dims.size() == 1) copy.dims.push_back(plain_dim(1, 1, 1));
}

// Chooses copy_line where it can execute all copies and they are large enough for each SM to get a chunk. (An item of
// 16 bytes is a vector by itself, and of 4 bytes vectors are quick enough.)
inline void try_lines(CopyLaunches& launches) {
  if (launches.item_size >= kMaxItemBytes) return;
  bool gaps = true;
  int64_t items = 0;
  CommonAlignment vec(4 * launches.item_size);
  for (const AffineCopy& copy : launches.copies) {
    gaps = gaps && copy.dims.size() == 2 && copy.dims.back().size == 1;
    vec.include(copy.dst);
    vec.include(copy.dims.size() == 1 && launches.item_size < 4 ? 0 : 1);
    items += numel(copy.dims);
  }
  if (items < limits().sm_count * kThreadsPerBlock * kItemsPerThread) return;
  if (gaps) {
    launches.access = AccessPattern::kLineWithGaps;
    for (AffineCopy& copy : launches.copies) copy.dims.pop_back();
  } else if (vec.value() == 4 * launches.item_size) {
    launches.access = AccessPattern::kLine;
  }
}

// Chooses wider vectors for items of less than 4 bytes where few vectors are partial: in long rows, and in rows that
// follow one another in the destination.
inline void try_wide_vectors(CopyLaunches& launches) {
  constexpr int64_t kLong = 64;
  const auto suits = [](const AffineCopy& copy) {
    const CopyDim& row = copy.dims.back();
    return row.size >= kLong || copy.dims.size() == 1 || copy.dims[copy.dims.size() - 2].dst_stride == row.size;
  };
  if (launches.item_size < 4 && std::all_of(launches.copies.begin(), launches.copies.end(), suits))
    launches.access = AccessPattern::kStridedWide;
}

// Moves the dimension along which the source is contiguous next to the last one, along which the destination is.
// Returns false if there is none, or if one of the two is too short for tiles.
inline bool arrange_tiles(AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kMinSize = 8, kSectorBytes = 32;
  auto& dims = copy.dims;
  if (dims.size() < 2 || dims.back().size < kMinSize || std::abs(dims.back().src_stride) * item_size < kSectorBytes)
    return false;
  const auto row = std::find_if(dims.begin(), dims.end() - 1, [&](const CopyDim& d) {
    return d.size >= kMinSize && (d.src_stride == 1 || d.src_stride == -1);
  });
  if (row == dims.end() - 1) return false;
  std::rotate(row, row + 1, dims.end() - 1);
  return true;
}

// Whether tiles can be moved in words of 4 bytes: if no word of the destination is cut by an end or lies across an
// unaligned address, and all rows of the source run forwards and begin equally far past an aligned address.
inline bool tiles_have_words(const AffineCopy& copy, int64_t item_size) {
  constexpr int64_t kWordBytes = 4;
  const std::size_t column = copy.dims.size() - 1, row = column - 1;
  CommonAlignment word(kWordBytes);
  word.include(copy.dst);
  word.include(copy.dims[column].size * item_size);
  for (std::size_t k = 0; k <= column; ++k) {
    if (k != column) word.include(copy.dims[k].dst_stride * item_size);
    if (k != row) word.include(copy.dims[k].src_stride * item_size);
  }
  return item_size < kWordBytes && word.value() == kWordBytes && copy.dims[row].src_stride == 1;
}

}  // namespace torch_dml_ops::cuda
