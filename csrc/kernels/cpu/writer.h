// Writes parts of a plan into memory: the rows, tiles and windows below a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "../affine_copy.h"
#include "engine.h"
#include "rows.h"

namespace torch_dml_ops::cpu {

inline constexpr char kZeroItem[kWidestItem] = {};

using Dims = std::span<const CopyDim>;

inline int64_t numel_of(Dims dims) {
  int64_t n = 1;
  for (const CopyDim& d : dims) n *= d.size;
  return n;
}

// Whether the destination of these dimensions is one range of memory without gaps.
inline bool dense(Dims dims) {
  int64_t expected = 1;
  for (std::size_t k = dims.size(); k-- > 0; expected *= dims[k].size)
    if (dims[k].dst_stride != expected) return false;
  return true;
}

inline bool unit_source(const CopyDim& d) { return d.reads_all() && (d.src_stride == 1 || d.src_stride == -1); }

// Whether the source's neighbours are the destination's rows: then a block takes whole cache lines of both.
inline bool is_transposition(Dims dims) {
  return dims.size() >= 2 && dims.back().dst_stride == 1 && !unit_source(dims.back()) &&
         unit_source(dims[dims.size() - 2]);
}

// Writes what a plan says, with the inner loops for its item size.
class Writer {
 public:
  // `total` items are to be written in all.
  Writer(int64_t item_size, int64_t total)
      : item_size_(item_size),
        streams_(total * item_size >= limits.stream),
        copy_tile_(rows().copy_tile[index_of_item_size(item_size)]),
        expand_(rows().expand[index_of_item_size(item_size)]),
        stream_(rows().stream) {}

  bool streams() const { return streams_; }
  void stream(char* dst, const char* src, int64_t bytes) const { stream_(dst, src, bytes); }
  void finish() const {
    if (streams_) finish_streams();
  }

  int64_t bytes(int64_t items) const { return items * item_size_; }

  // All that indices [begin, end) of the first dimension hold. `dst` and `src` belong to index 0; a null source reads
  // nothing and gives zeros.
  void write(Dims dims, char* dst, const char* src, int64_t begin, int64_t end) const {
    const CopyDim& d = dims.front();
    if (dims.size() == 1) return write_row(d, dst, src, begin, end);
    if (dims.size() == 2 && src && d.reads_all() && dims[1].reads_all()) {
      const CopyDim& row = dims[1];
      copy_tile_({dst + bytes(begin * d.dst_stride), src + bytes(begin * d.src_stride), end - begin, d.dst_stride,
                  d.src_stride, row.size, row.dst_stride, row.src_stride});
      return;
    }
    for (int64_t j = begin; j < end; ++j)
      write(dims.subspan(1), dst + bytes(j * d.dst_stride), place(d, src, j), 0, dims[1].size);
  }

  // The same, past the cache where that pays. A scratch of kMostBlockBytes takes what has to be put in order first.
  void write_block(Dims dims, char* dst, const char* src, int64_t begin, int64_t end, char* scratch) const {
    constexpr int64_t kLeast = 256;  // bytes; less is mostly cache lines written in part
    const CopyDim& d = dims.front();
    const int64_t each = bytes(numel_of(dims.subspan(1))), most = limits.block / each;
    if (!streams_ || (end - begin) * each < kLeast || most == 0 || !dense(dims) || is_transposition(dims))
      return write(dims, dst, src, begin, end);
    char* to = dst + bytes(begin * d.dst_stride);
    if (src && dims.size() == 1 && d.reads_all() && d.src_stride == 1)
      return stream_(to, src + bytes(begin), (end - begin) * each);
    for (; begin < end; begin += most) {
      const int64_t stop = std::min(begin + most, end);
      write(dims, scratch - begin * each, src, begin, stop);
      stream_(dst + begin * each, scratch, (stop - begin) * each);
    }
  }

  // Where index j of a dimension reads, null if nowhere.
  const char* place(const CopyDim& d, const char* src, int64_t j) const {
    if (!src) return nullptr;
    if (d.reads_all()) return src + bytes(j * d.src_stride);
    const int64_t distance = j - d.begin, q = distance / d.step;
    if (distance < 0 || distance % d.step != 0 || q >= d.count) return nullptr;
    return src + bytes(q * d.src_stride);
  }

 private:
  void copy_row(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n) const {
    if (n > 0) copy_tile_({dst, src, 1, 0, 0, n, dst_stride, src_stride});
  }

  void write_row(const CopyDim& row, char* dst, const char* src, int64_t begin, int64_t end) const {
    const auto at = [&](int64_t index) { return dst + bytes(index * row.dst_stride); };
    const auto zero = [&](int64_t from, int64_t to) { copy_row(at(from), row.dst_stride, kZeroItem, 0, to - from); };
    if (!src) return zero(begin, end);
    if (row.reads_all())
      return copy_row(at(begin), row.dst_stride, src + bytes(begin * row.src_stride), row.src_stride, end - begin);
    const auto steps_until = [&](int64_t index) {  // how many of the window's items lie before `index`
      return index <= row.begin ? 0 : std::min(row.count, (index - row.begin + row.step - 1) / row.step);
    };
    const int64_t q = steps_until(begin), q_end = steps_until(end);
    if (q == q_end) return zero(begin, end);
    const int64_t window = row.begin + q * row.step, window_end = row.begin + (q_end - 1) * row.step + 1;
    const char* from = src + bytes(q * row.src_stride);
    zero(begin, window);
    if (row.step == 1) {
      copy_row(at(window), row.dst_stride, from, row.src_stride, q_end - q);
    } else if (row.dst_stride == 1) {
      expand_(at(window), from, row.src_stride, q_end - q, row.step);
    } else {
      zero(window, window_end);
      copy_row(at(window), row.dst_stride * row.step, from, row.src_stride, q_end - q);
    }
    zero(window_end, end);
  }

  const int64_t item_size_;
  const bool streams_;
  void (*const copy_tile_)(const Tile&);
  void (*const expand_)(char*, const char*, int64_t, int64_t, int64_t);
  void (*const stream_)(char*, const char*, int64_t);
};

}  // namespace torch_dml_ops::cpu
