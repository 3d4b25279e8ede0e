// Writes parts of a plan into memory: the rows, tiles and windows below a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>

#include "../affine_copy.h"
#include "engine.h"
#include "rows.h"

namespace torch_dml_ops::cpu {

inline constexpr char kZeroItem[kMaxItemBytes] = {};

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

// Whether these dimensions are one run, or rows of one: see rows.h.
inline bool rows_of_runs(Dims dims) {
  return dims.size() <= 2 && dims.back().reads_all() && dims.back().dst_stride == 1 && dims.back().src_stride != 0 &&
         (dims.size() == 1 || dims.front().reads_all());
}

// How the runs of rows share cache lines, each having at least one.
inline Chain chain_of(std::span<const Run> runs) {
  if (std::ranges::all_of(runs, [](const Run& run) { return run.dst_row_stride == run.bytes; })) return Chain::kRows;
  const char* at = runs.front().dst;
  for (const Run& run : runs) {
    if (run.dst != at || run.dst_row_stride != runs.front().dst_row_stride) return Chain::kNone;
    at += run.bytes;
  }
  return at == runs.front().dst + runs.front().dst_row_stride ? Chain::kAll : Chain::kNone;
}

// What a thread puts in order before it goes past the cache. (Not on the stack, which may be small.)
struct alignas(kCacheLineBytes) Scratch {
  char bytes[kMostBlockBytes + kCacheLineBytes];
};

// Writes what a plan says, with the inner loops for its item size.
class Writer {
 public:
  // `total` items are to be written in all.
  Writer(int64_t item_size, int64_t total)
      : item_size_(item_size),
        streams_(total * item_size >= limits.stream),
        copy_tile_(rows().copy_tile[index_of_item_size(item_size)]),
        expand_(rows().expand[index_of_item_size(item_size)]),
        interleave_(rows().interleave[index_of_item_size(item_size)]),
        copy_runs_(rows().copy_runs),
        stream_runs_(rows().stream_runs),
        stream_strided_runs_(rows().stream_strided_runs[index_of_item_size(item_size)]) {}

  bool streams() const { return streams_; }
  std::unique_ptr<Scratch> new_scratch() const { return std::unique_ptr<Scratch>(streams_ ? new Scratch : nullptr); }
  void stream(char* dst, const char* src, int64_t bytes) const {
    const Run run{dst, src, bytes, 0, 0};
    stream_runs_({&run, 1, 0, 1});
  }
  void finish() const {
    if (streams_) finish_streams();
  }

  int64_t bytes(int64_t items) const { return items * item_size_; }
  int64_t items(int64_t bytes) const { return bytes / item_size_; }

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

  // The same, past the cache where that pays; the scratch takes what has to be put in order first.
  void write_block(Dims dims, char* dst, const char* src, int64_t begin, int64_t end, Scratch* free) const {
    constexpr int64_t kLeast = 256;  // bytes; less is mostly cache lines written in part
    const CopyDim& d = dims.front();
    const int64_t each = bytes(numel_of(dims.subspan(1)));
    if (!streams_ || (end - begin) * each < kLeast || is_transposition(dims)) return write(dims, dst, src, begin, end);
    if (src && rows_of_runs(dims)) {
      const Run run = run_of(dims, dst, src, begin, end);
      const Runs runs = plan({&run, 1}, dims.size() == 1 ? 1 : end - begin, dims.back().src_stride);
      if (runs.count > 0 && move(runs, dims.back().src_stride)) return;
    }
    const int64_t most = limits.chunk / each;
    if (most == 0 || !dense(dims)) return write(dims, dst, src, begin, end);
    char* scratch = free->bytes + reinterpret_cast<uintptr_t>(dst + bytes(begin * d.dst_stride)) % kCacheLineBytes;
    for (; begin < end; begin += most) {
      const int64_t stop = std::min(begin + most, end);
      write(dims, scratch - begin * each, src, begin, stop);
      stream(dst + begin * each, scratch, (stop - begin) * each);
    }
  }

  // n items of each source in turn. The scratch is as for write_block.
  void interleave(char* dst, std::span<const char*> sources, int64_t n, Scratch* free) const {
    const auto count = int64_t(sources.size());
    if (!streams_) return interleave_(dst, sources.data(), count, n);
    while (n > 0) {
      char* scratch = free->bytes + reinterpret_cast<uintptr_t>(dst) % kCacheLineBytes;
      const int64_t some = std::min(n, std::max<int64_t>(limits.chunk / bytes(count), 1));
      interleave_(scratch, sources.data(), count, some);
      stream(dst, scratch, bytes(some * count));
      for (const char*& source : sources) source += bytes(some);
      dst += bytes(some * count);
      n -= some;
    }
  }

  // How to move runs row by row; none, where that does not pay.
  Runs plan(std::span<const Run> runs, int64_t rows, int64_t src_stride) const {
    int64_t bytes = 0, least = runs.front().bytes;
    CommonAlignment aligned(kCacheLineBytes);
    bool upwards = src_stride == 1;  // what is read follows what was read before, within a row
    for (const Run& run : runs) {
      upwards = upwards && run.src == runs.front().src + bytes;
      bytes += run.bytes;
      least = std::min(least, run.bytes);
      aligned.include(run.dst);
      aligned.include(run.bytes);
      if (rows > 1) aligned.include(run.dst_row_stride);
    }
    const Runs none{nullptr, 0, 0, 0};
    Runs all{runs.data(), int64_t(runs.size()), 0, rows};
    if (!streams_) return all;
    if (src_stride == 1 && rows > 1 && least >= kCacheLineBytes) all.chain = chain_of(runs);
    if (aligned.value() < kCacheLineBytes && all.chain == Chain::kNone &&
        least < (src_stride == 1 ? limits.streamed_run : limits.strided_run))
      return none;
    const int64_t gap = runs.front().src_row_stride - bytes;
    if (!upwards || gap < 0 || gap > 4 * kCacheLineBytes) all.rows_ahead = (limits.ahead + bytes - 1) / bytes;
    return all;
  }

  // Returns false where there is no loop for that stride of the source.
  bool move(const Runs& runs, int64_t src_stride) const {
    if (src_stride != 1) return stream_strided_runs_(runs, src_stride);
    (streams_ ? stream_runs_ : copy_runs_)(runs);
    return true;
  }

  // Indices [begin, end) of rows of runs, or of a run.
  Run run_of(Dims dims, char* dst, const char* src, int64_t begin, int64_t end) const {
    const CopyDim& d = dims.front();
    const bool rows = dims.size() > 1;
    return {dst + bytes(begin * d.dst_stride), src + bytes(begin * d.src_stride),
            bytes(rows ? dims.back().size : end - begin), bytes(rows ? d.dst_stride : 0),
            bytes(rows ? d.src_stride : 0)};
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
  void (*const interleave_)(char*, const char* const*, int64_t, int64_t);
  void (*const copy_runs_)(const Runs&);
  void (*const stream_runs_)(const Runs&);
  bool (*const stream_strided_runs_)(const Runs&, int64_t);
};

}  // namespace torch_dml_ops::cpu
