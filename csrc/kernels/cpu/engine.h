// The CPU engine: executes plans on plain memory, on threads that the caller provides.
//
// Where code is faster than simpler code would be, a comment in brackets that begins with "case" names the benchmark
// case that shows it; `benchmarks/bench.py --case` runs that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "../affine_copy.h"
#include "../reverse_copy.h"

namespace torch_dml_ops::cpu {

// Calls body(begin, end) on ranges that together cover [0, total); all but the last are at least `grain` long.
using ParallelFor = void (*)(int64_t total, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Both write every element of the destinations once. Sources and destinations must not overlap.
void execute(AffineCopies plan, ParallelFor parallel_for);
void execute(ReverseCopy plan, ParallelFor parallel_for);

constexpr int64_t kCacheLineBytes = 64;
constexpr int64_t kPageBytes = 4096;  // at least
constexpr int64_t kMaxChunkBytes = 64 << 10;

// Sizes, in bytes, at which the engine changes its method: these numbers are for a processor with caches of 1 MB (L2)
// and 32 MB (L3), on which they were measured; see tuning_for. (The tests set them low, to reach every method with
// small tensors.)
struct Tuning {
  // Minimum work per thread; below it the wake-up cost dominates.
  int64_t grain_bytes = 1 << 17;

  // Work is divided into chunks of about this size, at most kMaxChunkBytes. A chunk and what it is made from fit into a
  // core's L2 cache.
  int64_t chunk_bytes = kMaxChunkBytes;

  // Results of at least this size are written with non-temporal stores. They are too large to stay in the cache until
  // someone reads them, and an ordinary store first reads the cache line that it overwrites.
  int64_t non_temporal_bytes = 32 << 20;

  // Staging, where it is needed before non-temporal stores, goes by parts of at most this size, and by single rows of
  // up to the other one, which is at most chunk_bytes.
  int64_t staging_bytes = 4 << 10;
  int64_t staged_row_bytes = 16 << 10;

  // How far ahead the source is prefetched where the hardware prefetcher would guess wrong: half of what it fetches
  // would be wasted.
  int64_t prefetch_bytes = 4 << 10;

  // Results of at least this size have their source prefetched as far ahead, row by row, where the rows, of at most the
  // other size, do not follow one another.
  int64_t prefetch_rows_from_bytes = std::numeric_limits<int64_t>::max();
  int64_t prefetched_row_bytes = 12 << 10;

  // If any segment is shorter than this, a few rows of each segment are copied at a time, otherwise all segments of a
  // row. At least kCacheLineBytes.
  int64_t short_segment_bytes = 512;

  // Segments that do not fill whole cache lines get non-temporal stores from these sizes on: contiguous ones, and
  // strided or reversed ones. In shorter segments too many of the lines are written only in part.
  int64_t non_temporal_segment_bytes = 1 << 10;
  int64_t non_temporal_strided_segment_bytes = 4 << 10;

  // The largest workspace of a panel that fits into a core's L2 cache.
  int64_t panel_bytes = 1 << 20;
};

// For a processor with caches of these sizes, in bytes; 0 where that is unknown. A larger L3 cache than 32 MB is shared
// with what else runs, of a larger L2 cache than 2 MB nothing was measured.
//
// AMD's processors prefetch less by themselves between rows that are not read in order or not whole, and what is
// written leaves less of their L3 cache to what is read. [case stride -2, middle axis, 4 MB, out, rows of 500]
inline Tuning tuning_for(int64_t l2_bytes, int64_t l3_bytes, bool amd) {
  Tuning result;
  if (l2_bytes > 0) result.panel_bytes = std::clamp<int64_t>(l2_bytes, 256 << 10, 2 << 20);
  if (l2_bytes > 0) result.chunk_bytes = std::clamp<int64_t>(l2_bytes / 16, 16 << 10, kMaxChunkBytes);
  if (l3_bytes > 0) result.non_temporal_bytes = std::clamp<int64_t>(amd ? l3_bytes / 4 : l3_bytes, 4 << 20, 32 << 20);
  if (amd && l2_bytes > 0) result.prefetch_rows_from_bytes = 2 * l2_bytes;
  return result;
}

// What this processor's caches ask for.
Tuning tuning_here();
inline Tuning tuning = tuning_here();

}  // namespace torch_dml_ops::cpu
