// The inner loops of the CPU engine, compiled once for every SIMD level and chosen when the library is loaded.
#pragma once

#include <bit>
#include <cstdint>

namespace torch_dml_ops::cpu {

// dst[r · dst_row_stride + i · dst_stride] = src[r · src_row_stride + i · src_stride] for r in [0, rows), i in [0, n).
// Strides are in items; the source's may be negative or 0.
struct Tile {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride;
  int64_t n, dst_stride, src_stride;
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

struct Rows {
  const char* level;  // the SIMD level's name
  // By the item's size: 1, 2, 4, 8, 16 bytes.
  void (*copy_tile[5])(const Tile&);
  // dst[i · step] = src[i · src_stride] for i in [0, n), with zeros between; nothing before the first or after the
  // last.
  void (*expand[5])(char* dst, const char* src, int64_t src_stride, int64_t n, int64_t step);
  void (*reverse_panel[5])(const Panel&);
  // memcpy past the cache: for what is too large to be found there again.
  void (*stream)(char* dst, const char* src, int64_t bytes);
};

// What was streamed is there for other threads from here on.
void finish_streams();

// The table for the best level that this processor has.
const Rows& rows();

inline int index_of_item_size(int64_t item_size) { return std::countr_zero(uint64_t(item_size)); }

}  // namespace torch_dml_ops::cpu
