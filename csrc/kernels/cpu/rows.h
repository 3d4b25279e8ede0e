// The inner loops of the CPU engine, compiled once for every SIMD level and chosen when the library is loaded.
#pragma once

#include <bit>
#include <cstdint>

namespace torch_dml_ops::cpu {

// dst[i · dst_stride] = src[i · src_stride] for i in [0, n). Strides are in items and may be negative or 0 for the
// source.
using CopyRow = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);

// A panel of neighbouring columns, walked down the axis, each column with a length of its own.
struct Panel {
  char* dst;
  const char* src;
  const int64_t* lengths;  // one for each column, at least 0 and at most the axis' size
  int64_t columns, dst_column_stride, src_column_stride;
  int64_t axis_begin, axis_end, dst_axis_stride, src_axis_stride;
};
using ReversePanel = void (*)(const Panel&);

struct Rows {
  const char* level;  // the SIMD level's name
  CopyRow copy[5];    // by the item's size: 1, 2, 4, 8, 16 bytes
  ReversePanel reverse_panel[5];
};

// The table for the best level that this processor has.
const Rows& rows();

inline int index_of_item_size(int64_t item_size) { return std::countr_zero(uint64_t(item_size)); }

}  // namespace torch_dml_ops::cpu
