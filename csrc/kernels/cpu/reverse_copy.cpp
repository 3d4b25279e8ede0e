#include "../reverse_copy.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "engine.h"
#include "writer.h"

namespace torch_dml_ops::cpu {
namespace {

// Columns that one task walks down the axis together when each has a length of its own. The more, the longer are the
// runs of memory that it reads and writes at each step.
constexpr int64_t kMostPanelColumns = 128;

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

// A part of the destination: all of it at one index of the outer dimensions, columns [column, column_end) of the
// innermost dimension beside the axis, and [begin, end) along the axis.
struct Part {
  char* dst;
  const char* src;
  int64_t length_offset, column, column_end, begin, end;
};

// What a thread keeps beside it: for what goes past the cache, and for panels, where there are any.
struct Beside {
  const std::unique_ptr<Scratch> scratch;
  const std::unique_ptr<char[]> panel;
};

class Task {
 public:
  Task(const ReverseCopy& copy, ReverseDim axis, ReverseDim column, int64_t total)
      : copy_(copy),
        axis_(axis),
        column_(column),
        writer_(copy.item_size, total),
        reverse_panel_(rows().reverse_panel[index_of_item_size(copy.item_size)]),
        panel_columns_(0) {
    if (column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return;
    // No fewer than a cache line's: all of it is read for them.
    for (int64_t columns = kMostPanelColumns; columns >= writer_.items(kCacheLineBytes) && !panel_columns_;
         columns /= 2)
      if (scratch_bytes(columns) <= limits.panel) panel_columns_ = columns;
  }

  // How many columns with lengths of their own are turned into rows for it, 0 if none, and the scratch that this takes.
  int64_t panel_columns() const { return panel_columns_; }
  Beside beside() const {
    const auto bytes = std::size_t(scratch_bytes(panel_columns_));
    return {writer_.new_scratch(), std::unique_ptr<char[]>(panel_columns_ ? new char[bytes] : nullptr)};
  }

  void finish() const { writer_.finish(); }

  void execute(const Part& p, Beside& beside) const {
    if (axis_.dst_stride < column_.dst_stride) return along_axis(p, beside);
    if (column_.length_stride == 0) return whole_rows(p, beside);
    length_per_column(p, beside);
  }

 private:
  int64_t scratch_bytes(int64_t columns) const {
    return writer_.bytes(2 * columns * panel_stride(axis_.size, copy_.item_size));
  }
  char* dst_at(const Part& p, int64_t column, int64_t i) const {
    return p.dst + writer_.bytes(column * column_.dst_stride + i * axis_.dst_stride);
  }
  const char* src_at(const Part& p, int64_t column, int64_t i) const {
    return p.src + writer_.bytes(column * column_.src_stride + i * axis_.src_stride);
  }
  int64_t length(const Part& p, int64_t column) const {
    return length_at(copy_, p.length_offset + column * column_.length_stride, axis_.size);
  }

  // Columns [p.column, …) at [begin, end) along the axis, reversed within the first n or as they are. The axis is the
  // first dimension, or the only one where there are no columns.
  void write(const Part& p, int64_t column, int64_t columns, int64_t n, Beside& beside) const {
    const int64_t middle = std::clamp(n, p.begin, p.end);
    for (const bool reversed : {true, false}) {
      const int64_t begin = reversed ? p.begin : middle, end = reversed ? middle : p.end;
      if (begin == end) continue;
      const CopyDim dims[2] = {
          plain_dim(end - begin, axis_.dst_stride, reversed ? -axis_.src_stride : axis_.src_stride),
          plain_dim(columns, column_.dst_stride, column_.src_stride)};
      writer_.write_block(Dims(dims, columns == 1 ? 1 : 2), dst_at(p, column, begin),
                          src_at(p, column, reversed ? n - 1 - begin : begin), 0, end - begin, beside.scratch.get());
    }
  }

  // The axis is what lies closest together in the destination.
  void along_axis(const Part& p, Beside& beside) const {
    for (int64_t j = p.column; j < p.column_end; ++j) write(p, j, 1, length(p, j), beside);
  }

  // All columns share one length: whole rows move.
  void whole_rows(const Part& p, Beside& beside) const {
    write(p, p.column, p.column_end - p.column, length(p, 0), beside);
  }

  void length_per_column(const Part& p, Beside& beside) const {
    const int64_t columns = p.column_end - p.column;
    std::array<int64_t, kMostPanelColumns> lengths;
    for (int64_t j = 0; j < columns; ++j) lengths[std::size_t(j)] = length(p, p.column + j);
    if (panel_columns_) {
      return reverse_panel_({dst_at(p, p.column, 0), src_at(p, p.column, 0), lengths.data(), columns, axis_.size,
                             axis_.dst_stride, axis_.src_stride, beside.panel.get()});
    }
    for (int64_t j = 0; j < columns; ++j) write(p, p.column + j, 1, lengths[std::size_t(j)], beside);
  }

  const ReverseCopy& copy_;
  const ReverseDim axis_, column_;
  const Writer writer_;
  void (*const reverse_panel_)(const Panel&);
  int64_t panel_columns_;
};

}  // namespace

void execute(ReverseCopy plan, ParallelFor parallel_for) {
  align_items(plan);
  reorder_and_coalesce(plan);
  std::vector<ReverseDim>& dims = plan.dims;
  const int64_t total = plan.numel();
  const std::size_t axis_at = plan.axis();
  const ReverseDim axis = dims[axis_at];
  dims.erase(dims.begin() + std::ptrdiff_t(axis_at));
  if (dims.empty()) dims.push_back({1, axis.size * axis.dst_stride + 1, 0, 0, false});
  const ReverseDim column = dims.back();
  dims.pop_back();

  const Task task(plan, axis, column, total);
  const int64_t grain = std::max<int64_t>(limits.grain / plan.item_size, 1);
  int64_t part_columns = column.size, part_axis = axis.size;
  if (axis.dst_stride < column.dst_stride) {
    part_axis = std::min(axis.size, grain);
    part_columns = std::min(column.size, grain / part_axis);
  } else if (column.length_stride == 0) {
    part_columns = std::min(column.size, grain);
    part_axis = std::min(axis.size, std::max<int64_t>(grain / part_columns, 1));
  } else {
    part_columns = std::min(column.size, task.panel_columns() ? task.panel_columns() : kMostPanelColumns);
    if (!task.panel_columns()) part_axis = std::min(axis.size, std::max<int64_t>(grain / part_columns, 1));
  }
  const int64_t column_parts = (column.size + part_columns - 1) / part_columns;
  const int64_t axis_parts = (axis.size + part_axis - 1) / part_axis;
  int64_t outer_size = 1;
  for (const ReverseDim& d : dims) outer_size *= d.size;

  const int64_t part_grain = std::max<int64_t>(grain / (part_columns * part_axis), 1);
  parallel_for(outer_size * column_parts * axis_parts, part_grain, [&](int64_t begin, int64_t end) {
    Beside beside = task.beside();
    for (int64_t at = begin; at < end; ++at) {
      const int64_t axis_part = at % axis_parts, column_part = at / axis_parts % column_parts;
      int64_t rest = at / (axis_parts * column_parts), dst = 0, src = 0, length_offset = 0;
      for (std::size_t k = dims.size(); k-- > 0;) {
        const int64_t index = rest % dims[k].size;
        rest /= dims[k].size;
        dst += index * dims[k].dst_stride;
        src += index * dims[k].src_stride;
        length_offset += index * dims[k].length_stride;
      }
      const int64_t column_begin = column_part * part_columns, axis_begin = axis_part * part_axis;
      Part part{plan.dst + dst * plan.item_size,
                plan.src + src * plan.item_size,
                length_offset,
                column_begin,
                column_begin + part_columns,
                axis_begin,
                axis_begin + part_axis};
      part.column_end = std::min(part.column_end, column.size);
      part.end = std::min(part.end, axis.size);
      task.execute(part, beside);
    }
    task.finish();
  });
}

}  // namespace torch_dml_ops::cpu
