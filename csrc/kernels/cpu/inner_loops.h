// The inner loops of the CPU engine, as a table of functions. inner_loops.inl defines them, inner_loops_<level>.cpp
// compiles them for a SIMD level, and inner_loops.cpp chooses the best level at the first call.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "engine.h"

namespace torch_dml_ops::cpu {

// A two-dimensional part of a copy, rows of n items: dst[r · dst_row_stride + i · dst_stride] =
// src[r · src_row_stride + i · src_stride] for r in [0, rows), i in [0, n). Strides are in items; the source's may be
// negative or 0.
struct Tile {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride;
  int64_t n, dst_stride, src_stride;
  bool prefetch = false;      // whether a transposition prefetches what it does next: where the caches do not hold it
  int64_t prefetch_rows = 0;  // how many rows ahead the source of contiguous and of reversed rows is prefetched; 0: not
};

// Bytes that are contiguous in the destination, in each of a number of rows: such as a piece of a split or join.
struct Segment {
  char* dst;
  const char* src;
  int64_t bytes, dst_row_stride, src_row_stride;  // strides in bytes
  bool spills = false;  // whether each row but the last may be read and written past its end, to a power of two bytes:
                        // what is there in the source is memory too, in the destination it is written later
};

// Whether the segments of a batch share cache lines of the destination. (Looked for only where each segment is at least
// a cache line long.)
enum class LineSharing {
  kNone,
  kAcrossRows,  // each segment begins where the same segment of the row before ends
  kAll,  // each segment begins where the one before it ends, the first of a row where the last of the row before does
};

// Rows [row_begin, row_end) of some segments: all segments of a row, then the next row.
struct SegmentBatch {
  const Segment* segments;
  int64_t count, row_begin, row_end;
  LineSharing sharing = LineSharing::kNone;
  int64_t prefetch_rows = 0;  // how many rows ahead the source is prefetched; 0: not, by ordinary stores
};

// Rows of `size` contiguous items: src[i · src_stride] at begin + i · step for i in [0, n), and zeros elsewhere. n is
// at least 1.
struct WindowedRows {
  char* dst;
  const char* src;
  int64_t rows, size, dst_row_stride, src_row_stride;  // strides in items
  int64_t begin, step, n, src_stride;
};

// Rows of n items that are contiguous in source and destination, each reversed up to a length of its own.
struct ReversedRows {
  char* dst;
  const char* src;
  const int64_t* lengths;                           // one for each row, clamped to [0, n]
  int64_t rows, n, dst_row_stride, src_row_stride;  // strides in items
  int64_t prefetch_rows;                            // as for a Tile
};

// More columns make longer rows to read and write.
constexpr int64_t kMaxPanelColumns = 128;

// Neighbouring columns (stride 1 in source and destination) along the whole axis of a reversal, each with a length of
// its own.
struct Panel {
  char* dst;
  const char* src;
  const int64_t* lengths;  // one for each column, clamped to [0, axis_size]
  int64_t columns;         // at most kMaxPanelColumns
  int64_t axis_size, dst_axis_stride, src_axis_stride;
  char* workspace;  // for (columns + 1) · panel_stride items
  bool prefetch;    // as for a Tile
};

// The distance between columns in a panel's workspace, in items: not a power of two, so that columns do not compete for
// the same cache sets.
inline int64_t panel_stride(int64_t axis_size, int64_t item_size) { return axis_size + 64 / item_size + 1; }

constexpr int64_t kMaxInterleaved = 4;

struct InnerLoops {
  const char* level;  // the SIMD level's name; TORCH_DML_OPS_SIMD, set to it, allows no higher level
  // Arrays are indexed by index_of_item_size: items of 1, 2, 4, 8, 16 bytes.
  void (*copy_tile[5])(const Tile&);
  // dst[i · step] = src[i · src_stride] for i in [0, n), and zeros between those items.
  void (*dilate[5])(char* dst, const char* src, int64_t src_stride, int64_t n, int64_t step);
  void (*copy_windowed_rows[5])(const WindowedRows&);
  // dst[i · count + k] = sources[k][i] for i in [0, n), k in [0, count); count is from 2 to kMaxInterleaved.
  void (*interleave[5])(char* dst, const char* const* sources, int64_t count, int64_t n);
  void (*reverse_rows[5])(const ReversedRows&);
  void (*reverse_panel[5])(const Panel&);
  void (*copy_segments)(const SegmentBatch&);
  void (*copy_segments_non_temporal)(const SegmentBatch&);  // the same with non-temporal stores
  // The same for one segment, which takes every src_stride-th item; returns false if there is no loop for that stride.
  bool (*copy_strided_segments_non_temporal[5])(const SegmentBatch&, int64_t src_stride);
};

// Makes the non-temporal stores so far visible to other threads.
void non_temporal_fence();

struct SimdLevel {
  const InnerLoops& loops;
  bool (*is_supported)();  // by this processor
  bool (*is_fast)();       // faster than the level before, if supported
};

// All levels of this build, the lowest first.
std::span<const SimdLevel> simd_levels();

// The table for the best level that this processor has and TORCH_DML_OPS_SIMD allows.
const InnerLoops& inner_loops();

constexpr int index_of_item_size(int64_t item_size) { return std::countr_zero(uint64_t(item_size)); }

}  // namespace torch_dml_ops::cpu
