// The CPU engine: runs plans on plain memory, with the threads that the caller lends.
#pragma once

#include <cstdint>
#include <functional>

#include "../affine_copy.h"
#include "../reverse_copy.h"

namespace torch_dml_ops::cpu {

// Calls body(begin, end) on ranges that together cover [0, total), each range but the last at least `grain` long.
using ParallelFor = void (*)(int64_t total, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Both write every element of the destinations once; source and destinations must not overlap.
void execute(AffineCopies plan, ParallelFor parallel_for);
void execute(ReverseCopy plan, ParallelFor parallel_for);

constexpr int64_t kCacheLineBytes = 64;
constexpr int64_t kMaxChunkBytes = 64 << 10;

// Where one way of doing things gives way to another, in bytes. (The tests set them low, to take every way with small
// tensors.)
struct Tuning {
  // What a thread is given at least: less does not repay the time in which a thread of the pool wakes up.
  int64_t grain_bytes = 1 << 17;

  // Work is done in chunks of about this size, at most kMaxChunkBytes, which stay in a core's own cache together with
  // what they are made from.
  int64_t chunk_bytes = kMaxChunkBytes;

  // Results from here on are written past the cache: they would push one another out of it before anyone reads them,
  // and a store that goes through the cache first reads what it is about to overwrite.
  int64_t non_temporal_bytes = 32 << 20;

  // What has to be put in order first is written past the cache in parts of at most this size, at most chunk_bytes.
  int64_t staging_bytes = 4 << 10;

  // How far ahead the source is asked for where the processor would not guess what is read next: where it guesses
  // wrong, half of what it fetches is wasted.
  int64_t prefetch_bytes = 4 << 10;

  // Where a piece of a split or join has shorter segments than this, a few rows of each piece are moved at a time, else
  // all pieces of a row. At least kCacheLineBytes.
  int64_t short_segment_bytes = 512;

  // Segments that do not fill whole cache lines are streamed from these sizes on: plain ones, and strided or reversed
  // ones. Of shorter ones, too much lies in lines that are written in part.
  int64_t non_temporal_segment_bytes = 1 << 10;
  int64_t non_temporal_strided_segment_bytes = 8 << 10;

  // Panels that take more workspace than this do not stay in a core's own cache.
  int64_t panel_bytes = 1 << 20;
};
inline Tuning tuning;

}  // namespace torch_dml_ops::cpu
