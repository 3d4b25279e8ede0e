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

// One run of a row: of items that follow one another in the destination.
struct Run {
  char* dst;
  const char* src;
  int64_t bytes, dst_row_stride, src_row_stride;  // strides in bytes
};

// Whether runs share cache lines of the destination. (Only runs of at least a cache line each are said to.)
enum class Chain {
  kNone,
  kRows,  // each run begins where the same run of the row before ends
  kAll,   // each run begins where the one before it ends, the first of a row where the last of the row before does
};

// The rows [begin, end) of the same runs, to be moved in that order.
struct Runs {
  const Run* runs;
  int64_t count, begin, end;
  Chain chain = Chain::kNone;
  int64_t rows_ahead = 0;  // how many rows before it is read the source is asked for
};

// A panel of neighbouring columns (stride 1 in source and destination), walked down the axis, each column with a length
// of its own.
struct Panel {
  char* dst;
  const char* src;
  const int64_t* lengths;  // one for each column, at least 0 and at most the axis' size
  int64_t columns;
  int64_t axis_size, dst_axis_stride, src_axis_stride;
  char* scratch;  // 2 · columns · panel_stride items
};

// From one column of a panel's scratch to the next, in items: so that columns do not fall into the same cache sets.
inline int64_t panel_stride(int64_t axis_size, int64_t item_size) { return axis_size + 64 / item_size + 1; }

constexpr int64_t kMostInterleaved = 4;

struct Rows {
  const char* level;  // the SIMD level's name
  // By the item's size: 1, 2, 4, 8, 16 bytes.
  void (*copy_tile[5])(const Tile&);
  // dst[i · step] = src[i · src_stride] for i in [0, n), with zeros between; nothing before the first or after the
  // last.
  void (*expand[5])(char* dst, const char* src, int64_t src_stride, int64_t n, int64_t step);
  // dst[i · count + k] = sources[k][i] for i in [0, n), k in [0, count); count is from 2 to kMostInterleaved.
  void (*interleave[5])(char* dst, const char* const* sources, int64_t count, int64_t n);
  void (*reverse_panel[5])(const Panel&);
  void (*copy_runs)(const Runs&);
  void (*stream_runs)(const Runs&);  // the same past the cache
  // One run in each row, of every src_stride-th item; returns whether there is a loop for that.
  bool (*stream_strided_runs[5])(const Runs&, int64_t src_stride);
};

// What was streamed is there for other threads from here on.
void finish_streams();

// The table for the best level that this processor has.
const Rows& rows();

inline int index_of_item_size(int64_t item_size) { return std::countr_zero(uint64_t(item_size)); }

}  // namespace torch_dml_ops::cpu
