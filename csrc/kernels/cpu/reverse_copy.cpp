// Reversals by length on the CPU.
//
//   axis    the dimension along which items are reversed
//   column  the dimension beside the axis with the smallest stride in the destination
//   chunk   what a thread writes at a time: some columns, by a range of the axis, at one index of all other dimensions
//   panel   some columns by the whole axis, each column with a length of its own: transposed into a workspace, where
//           each column is a row that is reversed
//
// Without panels, a chunk is two affine copies: what lies within the length, reversed, and what lies beyond it.
#include "../reverse_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>

#include "chunk_writer.h"
#include "engine.h"

namespace torch_dml_ops::cpu {
namespace {

// Rows with a length each that are reversed by one call.
constexpr int64_t kRowsAtOnce = 64;

// n lengths from an index of them on, clamped to [0, axis_size].
template <class T>
void clamp_lengths(int64_t* to, const ReverseCopy& copy, int64_t offset, int64_t stride, int64_t n, int64_t axis_size) {
  const char* from = static_cast<const char*>(copy.lengths) + offset * int64_t(sizeof(T));
  for (int64_t k = 0; k < n; ++k) {
    T length;  // it may be misaligned in memory
    std::memcpy(&length, from + k * stride * int64_t(sizeof(T)), sizeof(T));
    to[k] = length < 0 ? 0 : int64_t(std::min(uint64_t(length), uint64_t(axis_size)));
  }
}

// Columns [column, column_end), indices [begin, end) of the axis, at one index of the other dimensions.
struct Chunk {
  char* dst;
  const char* src;
  int64_t length_offset, column, column_end, begin, end;
};

// A thread's buffers: for staging, and for panels; null where not needed.
struct ReverseWorkspace {
  const std::unique_ptr<StagingBuffer> staging;
  const std::unique_ptr<char[]> panel;
};

class ReverseExecutor {
 public:
  ReverseExecutor(const ReverseCopy& copy, ReverseDim axis, ReverseDim column, int64_t total)
      : copy_(copy),
        axis_(axis),
        column_(column),
        writer_(copy.item_size, total),
        reverse_rows_(inner_loops().reverse_rows[index_of_item_size(copy.item_size)]),
        reverse_panel_(inner_loops().reverse_panel[index_of_item_size(copy.item_size)]),
        panel_columns_(0) {
    if (column.length_stride == 0 || column.dst_stride != 1 || column.src_stride != 1) return;
    // At least a cache line's width of columns, because whole lines are read for them.
    for (int64_t columns = kMaxPanelColumns; columns >= writer_.items(kCacheLineBytes) && !panel_columns_; columns /= 2)
      if (panel_bytes(columns) <= tuning.panel_bytes) panel_columns_ = columns;
  }

  // How many columns a panel has, 0 if panels are not used.
  int64_t panel_columns() const { return panel_columns_; }
  ReverseWorkspace new_workspace() const {
    const auto bytes = std::size_t(panel_bytes(panel_columns_));
    return {writer_.new_staging_buffer(), std::unique_ptr<char[]>(panel_columns_ ? new char[bytes] : nullptr)};
  }

  void fence() const { writer_.fence(); }

  void execute(const Chunk& c, ReverseWorkspace& workspace) const {
    if (axis_.dst_stride < column_.dst_stride) return along_axis(c, workspace);
    if (column_.length_stride == 0) return whole_rows(c, workspace);
    length_per_column(c, workspace);
  }

 private:
  int64_t panel_bytes(int64_t columns) const {
    return writer_.bytes((columns + 1) * panel_stride(axis_.size, copy_.item_size));
  }
  char* dst_at(const Chunk& c, int64_t column, int64_t i) const {
    return c.dst + writer_.bytes(column * column_.dst_stride + i * axis_.dst_stride);
  }
  const char* src_at(const Chunk& c, int64_t column, int64_t i) const {
    return c.src + writer_.bytes(column * column_.src_stride + i * axis_.src_stride);
  }
  void lengths(const Chunk& c, int64_t column, int64_t n, int64_t* to) const {
    const auto clamp = [&] {
      switch (copy_.length_type) {
        case LengthType::kInt32:
          return clamp_lengths<int32_t>;
        case LengthType::kUInt32:
          return clamp_lengths<uint32_t>;
        case LengthType::kUInt64:
          return clamp_lengths<uint64_t>;
        case LengthType::kInt64:
          break;
      }
      return clamp_lengths<int64_t>;
    };
    clamp()(to, copy_, c.length_offset + column * column_.length_stride, column_.length_stride, n, axis_.size);
  }
  int64_t length(const Chunk& c, int64_t column) const {
    int64_t result;
    lengths(c, column, 1, &result);
    return result;
  }

  // Writes `columns` columns of the chunk, all of length n: two copies whose first dimension is the axis.
  void write(const Chunk& c, int64_t column, int64_t columns, int64_t n, ReverseWorkspace& workspace) const {
    const int64_t middle = std::clamp(n, c.begin, c.end);
    for (const bool reversed : {true, false}) {
      const int64_t begin = reversed ? c.begin : middle, end = reversed ? middle : c.end;
      if (begin == end) continue;
      const CopyDim dims[2] = {
          plain_dim(end - begin, axis_.dst_stride, reversed ? -axis_.src_stride : axis_.src_stride),
          plain_dim(columns, column_.dst_stride, column_.src_stride)};
      writer_.write_chunk(Dims(dims, columns == 1 ? 1 : 2), dst_at(c, column, begin),
                          src_at(c, column, reversed ? n - 1 - begin : begin), 0, end - begin, workspace.staging.get());
    }
  }

  // The destination is contiguous along the axis: column by column.
  void along_axis(const Chunk& c, ReverseWorkspace& workspace) const {
    const bool rows = axis_.dst_stride == 1 && axis_.src_stride == 1 && c.begin == 0 && c.end == axis_.size;
    const int64_t staged = column_.dst_stride == axis_.size ? writer_.staged_rows(writer_.bytes(axis_.size)) : 0;
    if (rows && !writer_.non_temporal()) return reverse_rows(c);
    if (rows && staged > 0) return reverse_rows_staged(c, std::min(staged, kRowsAtOnce), workspace.staging.get());
    for (int64_t j = c.column; j < c.column_end; ++j) write(c, j, 1, length(c, j), workspace);
  }

  void reverse_rows(const Chunk& c) const {
    for (int64_t j = c.column; j < c.column_end; j += kRowsAtOnce)
      reverse_rows(c, j, std::min(c.column_end, j + kRowsAtOnce), dst_at(c, j, 0));
  }

  // [case reverse last axis, a length per row, 128 MB, out]
  void reverse_rows_staged(const Chunk& c, int64_t each, StagingBuffer* staging) const {
    StagedLines lines(writer_, dst_at(c, c.column, 0), staging);
    for (int64_t j = c.column; j < c.column_end; j += each) {
      const int64_t end = std::min(c.column_end, j + each);
      reverse_rows(c, j, end, lines.next());
      lines.add(writer_.bytes((end - j) * axis_.size));
    }
  }

  // Rows [j, end), at most kRowsAtOnce, each reversed up to its length.
  void reverse_rows(const Chunk& c, int64_t j, int64_t end, char* dst) const {
    std::array<int64_t, kRowsAtOnce> of_rows;
    lengths(c, j, end - j, of_rows.data());
    reverse_rows_({dst, src_at(c, j, 0), of_rows.data(), end - j, axis_.size, column_.dst_stride, column_.src_stride,
                   writer_.prefetch_rows(writer_.bytes(axis_.size), column_.src_stride == axis_.size)});
  }

  // All columns share one length: rows of columns are copied whole.
  void whole_rows(const Chunk& c, ReverseWorkspace& workspace) const {
    write(c, c.column, c.column_end - c.column, length(c, 0), workspace);
  }

  void length_per_column(const Chunk& c, ReverseWorkspace& workspace) const {
    const int64_t columns = c.column_end - c.column;
    std::array<int64_t, kMaxPanelColumns> of_columns;
    lengths(c, c.column, columns, of_columns.data());
    if (panel_columns_) {
      return reverse_panel_({dst_at(c, c.column, 0), src_at(c, c.column, 0), of_columns.data(), columns, axis_.size,
                             axis_.dst_stride, axis_.src_stride, workspace.panel.get(), writer_.non_temporal()});
    }
    for (int64_t j = 0; j < columns; ++j) write(c, c.column + j, 1, of_columns[std::size_t(j)], workspace);
  }

  const ReverseCopy& copy_;
  const ReverseDim axis_, column_;
  const ChunkWriter writer_;
  void (*const reverse_rows_)(const ReversedRows&);
  void (*const reverse_panel_)(const Panel&);
  int64_t panel_columns_;
};

}  // namespace

void execute(ReverseCopy plan, ParallelFor parallel_for) {
  align_items(plan);
  reorder_and_coalesce(plan.dims);
  auto& dims = plan.dims;
  const int64_t total = numel(plan.dims);
  const std::size_t axis_at = plan.axis();
  const ReverseDim axis = dims[axis_at];
  dims.erase(&dims[axis_at]);
  if (dims.empty()) dims.push_back({1, axis.size * axis.dst_stride + 1, 0, 0, false});
  const ReverseDim column = dims.back();
  dims.pop_back();

  const ReverseExecutor executor(plan, axis, column, total);
  const int64_t grain = std::max<int64_t>(tuning.grain_bytes / plan.item_size, 1);
  int64_t chunk_columns = column.size, chunk_axis = axis.size;
  if (axis.dst_stride < column.dst_stride) {
    chunk_axis = std::min(axis.size, grain);
    chunk_columns = std::min(column.size, grain / chunk_axis);
  } else if (column.length_stride == 0) {
    chunk_columns = std::min(column.size, grain);
    chunk_axis = std::min(axis.size, std::max<int64_t>(grain / chunk_columns, 1));
  } else {
    chunk_columns = std::min(column.size, executor.panel_columns() ? executor.panel_columns() : kMaxPanelColumns);
    if (!executor.panel_columns()) chunk_axis = std::min(axis.size, std::max<int64_t>(grain / chunk_columns, 1));
  }
  const int64_t column_chunks = (column.size + chunk_columns - 1) / chunk_columns;
  const int64_t axis_chunks = (axis.size + chunk_axis - 1) / chunk_axis;

  const int64_t chunk_grain = std::max<int64_t>(grain / (chunk_columns * chunk_axis), 1);
  parallel_for(numel(dims) * column_chunks * axis_chunks, chunk_grain, [&](int64_t begin, int64_t end) {
    ReverseWorkspace workspace = executor.new_workspace();
    for (int64_t at = begin; at < end; ++at) {
      const int64_t axis_chunk = at % axis_chunks, column_chunk = at / axis_chunks % column_chunks;
      int64_t rest = at / (axis_chunks * column_chunks), dst = 0, src = 0, length_offset = 0;
      for (std::size_t k = dims.size(); k-- > 0;) {
        const int64_t index = rest % dims[k].size;
        rest /= dims[k].size;
        dst += index * dims[k].dst_stride;
        src += index * dims[k].src_stride;
        length_offset += index * dims[k].length_stride;
      }
      const int64_t column_begin = column_chunk * chunk_columns, axis_begin = axis_chunk * chunk_axis;
      Chunk chunk{plan.dst + dst * plan.item_size,
                  plan.src + src * plan.item_size,
                  length_offset,
                  column_begin,
                  column_begin + chunk_columns,
                  axis_begin,
                  axis_begin + chunk_axis};
      chunk.column_end = std::min(chunk.column_end, column.size);
      chunk.end = std::min(chunk.end, axis.size);
      executor.execute(chunk, workspace);
    }
    executor.fence();
  });
}

}  // namespace torch_dml_ops::cpu
