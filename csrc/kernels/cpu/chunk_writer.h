// Writes a chunk of a copy: picks the inner loops for its rows, its window's zeros, and the kind of store.
//
//   dims        the dimensions of the copy within the chunk, the destination's smallest stride last
//   tile        the last two of them, if they have no window: one call of an inner loop
//   segments    contiguous rows of the destination, copied as they are
//   staging     a buffer in which rows are assembled first, where non-temporal stores could not write them as whole
//               cache lines
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ranges>
#include <span>

#include "../affine_copy.h"
#include "engine.h"
#include "inner_loops.h"

namespace torch_dml_ops::cpu {

inline constexpr char kZeroItem[kMaxItemBytes] = {};

using Dims = std::span<const CopyDim>;

// Whether the destination of these dimensions is contiguous memory.
inline bool is_dense(Dims dims) {
  int64_t expected = 1;
  for (std::size_t k = dims.size(); k-- > 0; expected *= dims[k].size)
    if (dims[k].dst_stride != expected) return false;
  return true;
}

inline bool has_unit_source_stride(const CopyDim& d) {
  return d.reads_all() && (d.src_stride == 1 || d.src_stride == -1);
}

// Whether neighbours in the source lie in different rows of the destination.
inline bool is_transposition(Dims dims) {
  return dims.size() >= 2 && dims.back().dst_stride == 1 && !has_unit_source_stride(dims.back()) &&
         has_unit_source_stride(dims[dims.size() - 2]);
}

// Whether these dimensions are a segment (see inner_loops.h): one row, or the rows of the first of two dimensions.
inline bool are_segments(Dims dims) {
  return dims.size() <= 2 && dims.back().reads_all() && dims.back().dst_stride == 1 && dims.back().src_stride != 0 &&
         (dims.size() == 1 || dims.front().reads_all());
}

// How segments of a cache line or more share the lines at their ends.
inline LineSharing line_sharing(std::span<const Segment> segments) {
  if (std::ranges::all_of(segments, [](const Segment& segment) { return segment.dst_row_stride == segment.bytes; }))
    return LineSharing::kAcrossRows;
  const char* at = segments.front().dst;
  for (const Segment& segment : segments) {
    if (segment.dst != at || segment.dst_row_stride != segments.front().dst_row_stride) return LineSharing::kNone;
    at += segment.bytes;
  }
  return at == segments.front().dst + segments.front().dst_row_stride ? LineSharing::kAll : LineSharing::kNone;
}

// A thread's buffer for staging. (Too large for the stack.)
struct alignas(kCacheLineBytes) StagingBuffer {
  char bytes[kMaxChunkBytes + kCacheLineBytes];
};

class ChunkWriter;

// Contiguous memory that is assembled in a staging buffer, part by part, and written by non-temporal stores: whole
// cache lines of it, but for the first and the last one. [case stride -1, last axis, 128 MB, out]
class StagedLines {
 public:
  StagedLines(const ChunkWriter& writer, char* dst, StagingBuffer* staging)
      : writer_(writer), dst_(dst), begin_(staging->bytes + reinterpret_cast<uintptr_t>(dst) % kCacheLineBytes) {}
  // Where the next part is to be assembled.
  char* next() const { return begin_ + kept_; }
  // That so many bytes of it were.
  void add(int64_t bytes);
  ~StagedLines();

 private:
  const ChunkWriter& writer_;
  char* dst_;  // what is staged, from `begin_` on, belongs here
  char* begin_;
  int64_t kept_ = 0;  // bytes that wait for the rest of their cache line
};

class ChunkWriter {
 public:
  // `total`: how many items all chunks of the plan write.
  ChunkWriter(int64_t item_size, int64_t total)
      : item_size_(item_size),
        non_temporal_(total * item_size >= tuning.non_temporal_bytes),
        prefetches_rows_(total * item_size >= tuning.prefetch_rows_from_bytes),
        copy_tile_(inner_loops().copy_tile[index_of_item_size(item_size)]),
        dilate_(inner_loops().dilate[index_of_item_size(item_size)]),
        copy_windowed_rows_(inner_loops().copy_windowed_rows[index_of_item_size(item_size)]),
        interleave_(inner_loops().interleave[index_of_item_size(item_size)]),
        copy_segments_(inner_loops().copy_segments),
        copy_segments_non_temporal_(inner_loops().copy_segments_non_temporal),
        copy_strided_segments_non_temporal_(
            inner_loops().copy_strided_segments_non_temporal[index_of_item_size(item_size)]) {}

  bool non_temporal() const { return non_temporal_; }
  std::unique_ptr<StagingBuffer> new_staging_buffer() const {
    return std::unique_ptr<StagingBuffer>(non_temporal_ ? new StagingBuffer : nullptr);
  }
  void store_non_temporal(char* dst, const char* src, int64_t bytes) const {
    const Segment segment{dst, src, bytes, 0, 0};
    copy_segments_non_temporal_({&segment, 1, 0, 1});
  }
  void fence() const {
    if (non_temporal_) non_temporal_fence();
  }

  int64_t bytes(int64_t items) const { return items * item_size_; }
  int64_t items(int64_t bytes) const { return bytes / item_size_; }
  // How many rows ahead the source of contiguous rows is prefetched, each of so many bytes. Rows that follow one
  // another in memory the hardware prefetches better. [case stride -1, last axis, 4 MB, out]
  int64_t prefetch_rows(int64_t bytes, bool follow) const {
    if (!prefetches_rows_ || follow || bytes > tuning.prefetched_row_bytes) return 0;
    return (tuning.prefetch_bytes + bytes - 1) / bytes;
  }
  // How many rows of so many bytes are staged at a time; 0 if they are too long.
  // [case reverse last axis, a length per row, 128 MB, out, rows of 1500]
  int64_t staged_rows(int64_t bytes) const {
    return bytes <= tuning.staged_row_bytes ? std::max<int64_t>(tuning.staging_bytes / bytes, 1) : 0;
  }

  // Writes indices [begin, end) of the first dimension and all of the others. `dst` and `src` are those of index 0; a
  // null source stands for zeros.
  void write(Dims dims, char* dst, const char* src, int64_t begin, int64_t end) const {
    const CopyDim& d = dims.front();
    if (dims.size() == 1) return write_row(d, dst, src, begin, end);
    if (dims.size() == 2 && src && d.reads_all() && dims[1].reads_all()) {
      const CopyDim& row = dims[1];
      copy_tile_({dst + bytes(begin * d.dst_stride), src + bytes(begin * d.src_stride), end - begin, d.dst_stride,
                  d.src_stride, row.size, row.dst_stride, row.src_stride, non_temporal_,
                  prefetch_rows(bytes(row.size), d.src_stride == row.size)});
      return;
    }
    if (dims.size() == 2 && src && d.reads_all() && dims[1].dst_stride == 1) {
      const CopyDim& row = dims[1];
      copy_windowed_rows_({dst + bytes(begin * d.dst_stride), src + bytes(begin * d.src_stride), end - begin, row.size,
                           d.dst_stride, d.src_stride, row.begin, row.step, row.count, row.src_stride});
      return;
    }
    for (int64_t j = begin; j < end; ++j)
      write(dims.subspan(1), dst + bytes(j * d.dst_stride), source_at(d, src, j), 0, dims[1].size);
  }

  // The same, with non-temporal stores where they pay.
  void write_chunk(Dims dims, char* dst, const char* src, int64_t begin, int64_t end, StagingBuffer* staging) const {
    constexpr int64_t kMinBytes = 256;  // below this, most cache lines would be written only in part
    const int64_t each = bytes(numel(dims.subspan(1)));
    if (!non_temporal_ || (end - begin) * each < kMinBytes || is_transposition(dims))
      return write(dims, dst, src, begin, end);
    if (src && are_segments(dims)) {
      const Segment segment = segment_of(dims, dst, src, begin, end);
      const SegmentBatch batch =
          batch_segments({&segment, 1}, dims.size() == 1 ? 1 : end - begin, dims.back().src_stride);
      if (batch.count > 0 && copy_batch(batch, dims.back().src_stride)) return;
    }
    const int64_t max_staged = staged_rows(each);
    if (max_staged == 0 || !is_dense(dims)) return write(dims, dst, src, begin, end);
    StagedLines lines(*this, dst + begin * each, staging);
    for (; begin < end; begin += max_staged) {
      const int64_t stop = std::min(begin + max_staged, end);
      write(dims, lines.next() - begin * each, src, begin, stop);
      lines.add((stop - begin) * each);
    }
  }

  // Writes n items of each source in turn, with non-temporal stores where they pay.
  void interleave(char* dst, std::span<const char*> sources, int64_t n, StagingBuffer* staging) const {
    const auto count = int64_t(sources.size());
    if (!non_temporal_) return interleave_(dst, sources.data(), count, n);
    StagedLines lines(*this, dst, staging);
    while (n > 0) {
      const int64_t some = std::min(n, std::max<int64_t>(tuning.staging_bytes / bytes(count), 1));
      interleave_(lines.next(), sources.data(), count, some);
      lines.add(bytes(some * count));
      for (const char*& source : sources) source += bytes(some);
      n -= some;
    }
  }

  // The batch that copies these segments row by row; an empty one where another way is faster.
  SegmentBatch batch_segments(std::span<const Segment> segments, int64_t rows, int64_t src_stride) const {
    const Segment& first = segments.front();
    int64_t bytes = 0, least = first.bytes;
    CommonAlignment aligned(kCacheLineBytes);
    bool contiguous_source = src_stride == 1;  // within a row, the source is read without gaps
    for (const Segment& segment : segments) {
      contiguous_source = contiguous_source && segment.src == first.src + bytes;
      bytes += segment.bytes;
      least = std::min(least, segment.bytes);
      aligned.include(segment.dst);
      aligned.include(segment.bytes);
      if (rows > 1) aligned.include(segment.dst_row_stride);
    }
    const SegmentBatch none{nullptr, 0, 0, 0};
    SegmentBatch all{segments.data(), int64_t(segments.size()), 0, rows};
    if (!non_temporal_) {
      all.prefetch_rows = prefetch_rows(bytes, first.src_row_stride == (contiguous_source ? bytes : first.bytes));
      return all;
    }
    if (src_stride == 1 && rows > 1 && least >= kCacheLineBytes) all.sharing = line_sharing(segments);
    if (aligned.value() < kCacheLineBytes && all.sharing == LineSharing::kNone &&
        least < (src_stride == 1 ? tuning.non_temporal_segment_bytes : tuning.non_temporal_strided_segment_bytes))
      return none;
    const int64_t gap = first.src_row_stride - bytes;
    if (!contiguous_source || gap < 0 || gap > 4 * kCacheLineBytes)
      all.prefetch_rows = (tuning.prefetch_bytes + bytes - 1) / bytes;
    return all;
  }

  // Returns false if there is no loop for that stride of the source.
  bool copy_batch(const SegmentBatch& batch, int64_t src_stride) const {
    if (src_stride != 1) return copy_strided_segments_non_temporal_(batch, src_stride);
    (non_temporal_ ? copy_segments_non_temporal_ : copy_segments_)(batch);
    return true;
  }

  // The segment that these dimensions are (see are_segments): from row `begin` on if there are two of them, and indices
  // [begin, end) if there is one.
  Segment segment_of(Dims dims, char* dst, const char* src, int64_t begin, int64_t end) const {
    const CopyDim& d = dims.front();
    const bool rows = dims.size() > 1;
    return {dst + bytes(begin * d.dst_stride), src + bytes(begin * d.src_stride),
            bytes(rows ? dims.back().size : end - begin), bytes(rows ? d.dst_stride : 0),
            bytes(rows ? d.src_stride : 0)};
  }

  // The source at index j of a dimension, null where it is zero instead.
  const char* source_at(const CopyDim& d, const char* src, int64_t j) const {
    if (!src) return nullptr;
    if (d.reads_all()) return src + bytes(j * d.src_stride);
    const int64_t index = d.source_index(j);
    return index < 0 ? nullptr : src + bytes(index * d.src_stride);
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
    const auto steps_until = [&](int64_t index) {  // how many items of the window lie before `index`
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
      dilate_(at(window), from, row.src_stride, q_end - q, row.step);
    } else {
      zero(window, window_end);
      copy_row(at(window), row.dst_stride * row.step, from, row.src_stride, q_end - q);
    }
    zero(window_end, end);
  }

  const int64_t item_size_;
  const bool non_temporal_, prefetches_rows_;
  void (*const copy_tile_)(const Tile&);
  void (*const dilate_)(char*, const char*, int64_t, int64_t, int64_t);
  void (*const copy_windowed_rows_)(const WindowedRows&);
  void (*const interleave_)(char*, const char* const*, int64_t, int64_t);
  void (*const copy_segments_)(const SegmentBatch&);
  void (*const copy_segments_non_temporal_)(const SegmentBatch&);
  bool (*const copy_strided_segments_non_temporal_)(const SegmentBatch&, int64_t);
};

inline void StagedLines::add(int64_t bytes) {
  kept_ += bytes;
  const int64_t rest = int64_t(reinterpret_cast<uintptr_t>(begin_ + kept_) % kCacheLineBytes), whole = kept_ - rest;
  if (whole <= 0) return;
  writer_.store_non_temporal(dst_, begin_, whole);
  char* line = begin_ - reinterpret_cast<uintptr_t>(begin_) % kCacheLineBytes;
  std::memcpy(line, begin_ + whole, std::size_t(rest));
  dst_ += whole;
  begin_ = line;
  kept_ = rest;
}

inline StagedLines::~StagedLines() {
  if (kept_ > 0) writer_.store_non_temporal(dst_, begin_, kept_);
}

}  // namespace torch_dml_ops::cpu
