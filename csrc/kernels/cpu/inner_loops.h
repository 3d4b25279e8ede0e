// The inner loops of the CPU engine, compiled once for every SIMD level and chosen when the library is loaded.
#pragma once

#include <bit>
#include <cstdint>

#include "engine.h"

namespace torch_dml_ops::cpu {

// dst[r · dst_row_stride + i · dst_stride] = src[r · src_row_stride + i · src_stride] for r in [0, rows), i in [0, n).
// Strides are in items; the source's may be negative or 0.
struct Tile {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride;
  int64_t n, dst_stride, src_stride;
};

// One segment of a row: items that follow one another in the destination.
struct Segment {
  char* dst;
  const char* src;
  int64_t bytes, dst_row_stride, src_row_stride;  // strides in bytes
};

// Whether segments share cache lines of the destination. (Only segments of at least a cache line each are said to.)
enum class LineSharing {
  kNone,
  kAcrossRows,  // each segment begins where the same one of the row before ends
  kAll,  // each segment begins where the one before it ends, the first of a row where the last of the row before does
};

// The rows [begin, end) of the same segments, to be moved in that order.
struct SegmentBatch {
  const Segment* segments;
  int64_t count, row_begin, row_end;
  LineSharing sharing = LineSharing::kNone;
  int64_t prefetch_rows = 0;  // how many rows before it is read the source is asked for
};

// A panel of neighbouring columns (stride 1 in source and destination), walked down the axis, each column with a length
// of its own.
struct Panel {
  char* dst;
  const char* src;
  const int64_t* lengths;  // one for each column, at least 0 and at most the axis' size
  int64_t columns;
  int64_t axis_size, dst_axis_stride, src_axis_stride;
  char* workspace;  // 2 · columns · panel_stride items
};

// From one column of a panel's scratch to the next, in items: so that columns do not fall into the same cache sets.
inline int64_t panel_stride(int64_t axis_size, int64_t item_size) { return axis_size + 64 / item_size + 1; }

constexpr int64_t kMaxInterleaved = 4;

struct InnerLoops {
  const char* level;  // the SIMD level's name
  // By the item's size: 1, 2, 4, 8, 16 bytes.
  void (*copy_tile[5])(const Tile&);
  // dst[i · step] = src[i · src_stride] for i in [0, n), with zeros between; nothing before the first or after the
  // last.
  void (*dilate[5])(char* dst, const char* src, int64_t src_stride, int64_t n, int64_t step);
  // dst[i · count + k] = sources[k][i] for i in [0, n), k in [0, count); count is from 2 to kMaxInterleaved.
  void (*interleave[5])(char* dst, const char* const* sources, int64_t count, int64_t n);
  void (*reverse_panel[5])(const Panel&);
  void (*copy_segments)(const SegmentBatch&);
  void (*copy_segments_non_temporal)(const SegmentBatch&);  // the same with non-temporal stores
  // One segment in each row, of every src_stride-th item; returns whether there is a loop for that.
  bool (*copy_strided_segments_non_temporal[5])(const SegmentBatch&, int64_t src_stride);
};

// What was stored so is there for other threads from here on.
void non_temporal_fence();

// The table for the best level that this processor has.
const InnerLoops& inner_loops();

inline int index_of_item_size(int64_t item_size) { return std::countr_zero(uint64_t(item_size)); }

}  // namespace torch_dml_ops::cpu
