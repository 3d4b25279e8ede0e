#include "../reverse_copy.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine.h"
#include "rows.h"

namespace torch_dml_ops::cpu {
namespace {

// Columns that one task walks down the axis together when each has a length of its own: their items fill a few cache
// lines, so that the lines read by one step along the axis are still in the cache at the next.
constexpr int64_t kPanelColumns = 64;

template <class T>
int64_t clamped_length(const void* lengths, int64_t offset, int64_t axis_size) {
  const T length = static_cast<const T*>(lengths)[offset];
  if (length < 0) return 0;
  return uint64_t(length) < uint64_t(axis_size) ? int64_t(length) : axis_size;
}

int64_t length_at(const ReverseCopy& copy, int64_t offset, int64_t axis_size) {
  switch (copy.length_type) {
    case LengthType::kInt32:
      return clamped_length<int32_t>(copy.lengths, offset, axis_size);
    case LengthType::kUInt32:
      return clamped_length<uint32_t>(copy.lengths, offset, axis_size);
    case LengthType::kUInt64:
      return clamped_length<uint64_t>(copy.lengths, offset, axis_size);
    case LengthType::kInt64:
      break;
  }
  return clamped_length<int64_t>(copy.lengths, offset, axis_size);
}

// A block of the destination: all of it at one index of the outer dimensions, columns [column, column_end) of the
// innermost dimension beside the axis, and [begin, end) along the axis.
struct Block {
  char* dst;
  const char* src;
  int64_t length_offset, column, column_end, begin, end;
};

struct Task {
  const ReverseCopy& copy;
  const ReverseDim axis, column;
  CopyRow copy_row;
  ReversePanel reverse_panel;

  char* dst_at(const Block& b, int64_t column_index, int64_t i) const {
    return b.dst + (column_index * column.dst_stride + i * axis.dst_stride) * copy.item_size;
  }
  const char* src_at(const Block& b, int64_t column_index, int64_t i) const {
    return b.src + (column_index * column.src_stride + i * axis.src_stride) * copy.item_size;
  }
  int64_t length(const Block& b, int64_t column_index) const {
    return length_at(copy, b.length_offset + column_index * column.length_stride, axis.size);
  }

  // The axis is what lies closest together in the destination: a reversed row and a plain one for each column.
  void along_axis(const Block& b) const {
    for (int64_t j = b.column; j < b.column_end; ++j) {
      const int64_t n = length(b, j), reversed_end = std::clamp(n, b.begin, b.end);
      if (b.begin < reversed_end)
        copy_row(dst_at(b, j, b.begin), axis.dst_stride, src_at(b, j, n - 1 - b.begin), -axis.src_stride,
                 reversed_end - b.begin);
      if (reversed_end < b.end)
        copy_row(dst_at(b, j, reversed_end), axis.dst_stride, src_at(b, j, reversed_end), axis.src_stride,
                 b.end - reversed_end);
    }
  }

  // All columns share one length: whole rows move.
  void whole_rows(const Block& b) const {
    const int64_t n = length(b, 0);
    for (int64_t i = b.begin; i < b.end; ++i)
      copy_row(dst_at(b, b.column, i), column.dst_stride, src_at(b, b.column, i < n ? n - 1 - i : i), column.src_stride,
               b.column_end - b.column);
  }

  void length_per_column(const Block& b) const {
    std::array<int64_t, kPanelColumns> lengths;
    for (int64_t j = b.column; j < b.column_end; ++j) lengths[std::size_t(j - b.column)] = length(b, j);
    reverse_panel({dst_at(b, b.column, 0), src_at(b, b.column, 0), lengths.data(), b.column_end - b.column,
                   column.dst_stride, column.src_stride, b.begin, b.end, axis.dst_stride, axis.src_stride});
  }

  void run(const Block& b) const {
    if (axis.dst_stride < column.dst_stride) return along_axis(b);
    if (column.length_stride == 0) return whole_rows(b);
    length_per_column(b);
  }
};

}  // namespace

void run(ReverseCopy plan, ParallelFor parallel_for) {
  normalize(plan);
  std::vector<ReverseDim>& dims = plan.dims;
  const std::size_t axis_at = plan.axis();
  const ReverseDim axis = dims[axis_at];
  dims.erase(dims.begin() + std::ptrdiff_t(axis_at));
  if (dims.empty()) dims.push_back({1, axis.size * axis.dst_stride + 1, 0, 0, false});
  const ReverseDim column = dims.back();
  dims.pop_back();

  const int item = index_of_item_size(plan.item_size);
  const Task task{plan, axis, column, rows().copy[item], rows().reverse_panel[item]};
  const int64_t grain = kGrainBytes / plan.item_size;
  int64_t block_columns = column.size, block_axis = axis.size;
  if (axis.dst_stride < column.dst_stride) {
    block_axis = std::min(axis.size, grain);
    block_columns = std::min(column.size, grain / block_axis);
  } else {
    block_columns = std::min(column.size, column.length_stride == 0 ? grain : kPanelColumns);
    block_axis = std::min(axis.size, std::max<int64_t>(grain / block_columns, 1));
  }
  const int64_t column_blocks = (column.size + block_columns - 1) / block_columns;
  const int64_t axis_blocks = (axis.size + block_axis - 1) / block_axis;
  int64_t outer_size = 1;
  for (const ReverseDim& d : dims) outer_size *= d.size;

  const int64_t block_grain = std::max<int64_t>(grain / (block_columns * block_axis), 1);
  parallel_for(outer_size * column_blocks * axis_blocks, block_grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t axis_block = at % axis_blocks, column_block = at / axis_blocks % column_blocks;
      int64_t rest = at / (axis_blocks * column_blocks), dst = 0, src = 0, length_offset = 0;
      for (std::size_t k = dims.size(); k-- > 0;) {
        const int64_t index = rest % dims[k].size;
        rest /= dims[k].size;
        dst += index * dims[k].dst_stride;
        src += index * dims[k].src_stride;
        length_offset += index * dims[k].length_stride;
      }
      const int64_t column_begin = column_block * block_columns, axis_begin = axis_block * block_axis;
      task.run({plan.dst + dst * plan.item_size, plan.src + src * plan.item_size, length_offset, column_begin,
                std::min(column_begin + block_columns, column.size), axis_begin,
                std::min(axis_begin + block_axis, axis.size)});
    }
  });
}

}  // namespace torch_dml_ops::cpu
