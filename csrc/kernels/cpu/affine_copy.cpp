// Affine copies on the CPU.
//
//   fused copies  the pieces of a split or join, which read or write neighbouring memory, or a single copy
//   chunk         what a thread writes at a time, about 64 KB of all fused copies together: one index of each dimension
//                 before `chunk_dim`, a range of indices of that dimension, and all of the later dimensions
//   tile          the last two dimensions of a chunk: one call of an inner loop
//   vector        16 or 32 bytes, which an inner loop loads and stores at once
//
// parallel_for runs over the chunks of all copies; at least grain_bytes of them go to a thread.
#include "../affine_copy.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>

#include "chunk_writer.h"
#include "engine.h"

namespace torch_dml_ops::cpu {
namespace {

// Whether the copies join single items along the last axis, and are few enough for the inner loop `interleave`.
bool is_interleave(std::span<const AffineCopy> copies, const ChunkWriter& writer) {
  const auto count = int64_t(copies.size());
  if (count < 2 || count > kMaxInterleaved) return false;
  for (int64_t k = 0; k < count; ++k) {
    const AffineCopy& copy = copies[std::size_t(k)];
    const CopyDim& d = copy.dims.front();
    if (copy.dims.size() != 1 || !d.reads_all() || d.src_stride != 1 || d.dst_stride != count ||
        copy.dst != copies.front().dst + writer.bytes(k))
      return false;
  }
  return true;
}

// Marks which segments spill, if all are narrow enough for vectors of 32 bytes. Between rows that are less than a page
// apart, no page can be missing.
void mark_spilling(std::span<Segment> segments) {
  constexpr int64_t kMaxBytes = 32;
  if (std::ranges::max(segments, {}, &Segment::bytes).bytes > kMaxBytes) return;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    Segment& segment = segments[k];
    const Segment& next = segments[std::min(k + 1, segments.size() - 1)];
    const bool next_follows = segment.dst + segment.bytes == next.dst && segment.bytes <= next.bytes &&
                              segment.dst_row_stride == next.dst_row_stride;
    const int64_t gap = segment.src_row_stride - segment.bytes;
    segment.spills = !std::has_single_bit(uint64_t(segment.bytes)) && gap >= 0 && gap < kPageBytes &&
                     (next_follows || segment.dst_row_stride == segment.bytes);
  }
}

// Copies whose chunks are executed together, so that the neighbouring memory that they read or write stays in the
// cache. [case split last axis in 16, 4 MB]
struct FusedCopies {
  std::span<const AffineCopy> copies;
  std::size_t chunk_dim;
  int64_t chunk_size;  // how many indices of dimension chunk_dim a chunk has
  int64_t chunks;      // how many chunks there are
  int64_t end;         // the number of the last chunk and one, chunks of all copies being numbered throughout
  SmallVector<Segment, 2> segments;  // if the copies are segments of the same rows, along chunk_dim
  SegmentBatch batch;                // of those segments; empty if there are none or another way is faster
  bool interleaved;                  // whether the copies' single items alternate in the destination

  FusedCopies(std::span<const AffineCopy> of, const ChunkWriter& writer, int64_t begin)
      : copies(of), chunk_dim(0), chunks(1), batch{}, interleaved(is_interleave(of, writer)) {
    const Dims dims = copies.front().dims;
    const auto bytes_per_index = [&] {  // of dimension chunk_dim
      int64_t items = 0;
      for (const AffineCopy& copy : copies) items += numel(Dims(copy.dims).subspan(chunk_dim + 1));
      return writer.bytes(items);
    };
    const int64_t max_bytes = writer.non_temporal() ? tuning.staging_bytes : tuning.chunk_bytes;
    while (copies.size() == 1 && chunk_dim + 1 < dims.size() && bytes_per_index() > max_bytes) ++chunk_dim;
    if (copies.size() == 1 && dims.size() >= 2) {
      const bool last = chunk_dim + 1 == dims.size();
      if (is_transposition(dims) ||
          (last && are_segments(dims.last(2)) && writer.bytes(dims.back().size) <= tuning.chunk_bytes))
        chunk_dim = dims.size() - 2;
    }
    chunk_size = tuning.chunk_bytes / bytes_per_index();
    if (is_transposition(dims)) chunk_size = std::max(chunk_size, writer.items(kCacheLineBytes));
    chunk_size = std::clamp<int64_t>(chunk_size, 1, dims[chunk_dim].size);
    for (std::size_t k = 0; k < chunk_dim; ++k) chunks *= dims[k].size;
    chunks *= chunks_along_dim();
    end = begin + chunks;
    if (copies.size() > 1 && std::ranges::all_of(copies, [](const AffineCopy& copy) {
          return copy.dims.size() == 2 && are_segments(copy.dims) && copy.dims.back().src_stride == 1;
        })) {
      for (const AffineCopy& copy : copies) segments.push_back(writer.segment_of(copy.dims, copy.dst, copy.src, 0, 1));
      mark_spilling(segments);
      batch = writer.batch_segments(segments, dims.front().size, 1);
    }
  }

  int64_t chunks_along_dim() const { return (copies.front().dims[chunk_dim].size + chunk_size - 1) / chunk_size; }
};

// Whether copies can be fused: their first dimensions have the same size, no copy is contiguous along it in both source
// and destination, and one index of it in all copies is at most a chunk.
bool can_fuse(std::span<const AffineCopy> copies, int64_t item_size) {
  int64_t items = 0;
  for (const AffineCopy& copy : copies) {
    const CopyDim& first = copy.dims.front();
    if (first.size != copies.front().dims.front().size || (first.dst_stride == 1 && first.src_stride == 1))
      return false;
    items += numel(Dims(copy.dims).subspan(1));
  }
  return copies.size() > 1 && items * item_size <= tuning.chunk_bytes;
}

class CopyExecutor {
 public:
  CopyExecutor(std::span<const AffineCopy> copies, int64_t item_size) : writer_(item_size, total_numel(copies)) {
    const std::size_t together = can_fuse(copies, item_size) ? copies.size() : 1;
    for (std::size_t k = 0; k < copies.size(); k += together)
      fused_.emplace_back(copies.subspan(k, together), writer_, chunks());
  }

  int64_t chunks() const { return fused_.empty() ? 0 : fused_.back().end; }

  void execute(int64_t begin, int64_t end) const {
    const auto staging = writer_.new_staging_buffer();
    for (auto fused = std::ranges::upper_bound(fused_, begin, {}, &FusedCopies::end); begin < end; ++fused) {
      const int64_t start = fused->end - fused->chunks, stop = std::min(end, fused->end);
      for (; begin < stop; ++begin) execute_chunk(*fused, begin - start, staging.get());
    }
    writer_.fence();
  }

 private:
  void execute_chunk(const FusedCopies& fused, int64_t at, StagingBuffer* staging) const {
    const int64_t along = fused.chunks_along_dim(), begin = at % along * fused.chunk_size;
    const int64_t end = std::min(begin + fused.chunk_size, fused.copies.front().dims[fused.chunk_dim].size);
    at /= along;
    if (fused.batch.count > 0) {
      SegmentBatch batch = fused.batch;
      batch.segments = fused.segments.data();
      batch.row_begin = begin;
      batch.row_end = end;
      writer_.copy_batch(batch, 1);
      return;
    }
    if (fused.interleaved) {
      std::array<const char*, kMaxInterleaved> sources;
      for (std::size_t k = 0; k < fused.copies.size(); ++k) sources[k] = fused.copies[k].src + writer_.bytes(begin);
      char* dst = fused.copies.front().dst + writer_.bytes(begin * int64_t(fused.copies.size()));
      return writer_.interleave(dst, std::span(sources).first(fused.copies.size()), end - begin, staging);
    }
    if (writer_.non_temporal() && fused.copies.size() > 1 && stage_fused(fused, begin, end, staging)) return;
    for (const AffineCopy& copy : fused.copies) {
      char* dst = copy.dst;
      const char* src = copy.src;
      int64_t rest = at;
      for (std::size_t k = fused.chunk_dim; k-- > 0;) {
        const CopyDim& d = copy.dims[k];
        const int64_t index = rest % d.size;
        rest /= d.size;
        dst += writer_.bytes(index * d.dst_stride);
        src = writer_.source_at(d, src, index);
      }
      writer_.write_chunk(Dims(copy.dims).subspan(fused.chunk_dim), dst, src, begin, end, staging);
    }
  }

  // Stages a chunk of copies that together fill a contiguous range of the destination, as those of a join do. Returns
  // false if they do not. [case join ones to a last axis of 7, 128 MB]
  bool stage_fused(const FusedCopies& fused, int64_t begin, int64_t end, StagingBuffer* staging) const {
    const int64_t stride = fused.copies.front().dims.front().dst_stride;
    char* first = fused.copies.front().dst;
    for (const AffineCopy& copy : fused.copies) first = std::min(first, copy.dst);
    int64_t items = 0;
    for (const AffineCopy& copy : fused.copies) {
      const Dims inner = Dims(copy.dims).subspan(1);
      const int64_t n = numel(inner);
      items += n;
      // Each copy is contiguous and within the range of one index. As copies do not overlap, they fill that range if
      // their sizes add up to it.
      if (copy.dims.front().dst_stride != stride || !is_dense(inner) ||
          copy.dst - first + writer_.bytes(n) > writer_.bytes(stride))
        return false;
    }
    const int64_t bytes = writer_.bytes((end - begin) * stride);
    if (items != stride || bytes > kMaxChunkBytes) return false;
    char* chunk = first + writer_.bytes(begin * stride);
    char* staged = staging->bytes + reinterpret_cast<uintptr_t>(chunk) % kCacheLineBytes;
    for (const AffineCopy& copy : fused.copies)
      writer_.write(copy.dims, staged + (copy.dst - chunk), copy.src, begin, end);
    writer_.store_non_temporal(chunk, staged, bytes);
    return true;
  }

  static int64_t total_numel(std::span<const AffineCopy> copies) {
    int64_t n = 0;
    for (const AffineCopy& copy : copies) n += numel(copy.dims);
    return n;
  }

  const ChunkWriter writer_;
  SmallVector<FusedCopies, 1> fused_;
};

// Moves the dimension in which the source is contiguous next to the last one, in which the destination is: a tile is
// then a transposition.
void pair_unit_strides(AffineCopy& copy) {
  auto& dims = copy.dims;
  if (dims.size() < 3 || dims.back().dst_stride != 1) return;
  if (has_unit_source_stride(dims.back())) return;
  const auto found = std::find_if(dims.begin(), dims.end() - 1, has_unit_source_stride);
  if (found != dims.end() - 1) std::rotate(found, found + 1, dims.end() - 1);
}

}  // namespace

void execute(AffineCopies plan, ParallelFor parallel_for) {
  align_items(plan);
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    pair_unit_strides(copy);
    if (copy.dims.empty()) copy.dims.push_back(plain_dim(1, 1, 1));
  }
  const CopyExecutor executor(plan.copies, plan.item_size);
  parallel_for(executor.chunks(), std::max<int64_t>(tuning.grain_bytes / tuning.chunk_bytes, 1),
               [&](int64_t begin, int64_t end) { executor.execute(begin, end); });
}

}  // namespace torch_dml_ops::cpu
