// How the items of affine copies are accessed, and which way suits the copies of a plan.
#pragma once

#include <algorithm>
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
