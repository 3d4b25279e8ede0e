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
void run(AffineCopies plan, ParallelFor parallel_for);
void run(ReverseCopy plan, ParallelFor parallel_for);

// What a thread is given at least, in bytes: less does not repay the time in which a thread of the pool wakes up.
constexpr int64_t kGrainBytes = 1 << 17;

// Work is done in blocks of about this many bytes, which stay in the nearest cache with what they are made from.
constexpr int64_t kBlockBytes = 64 << 10;

constexpr int64_t kCacheLineBytes = 64;

// Results from here on are written past the cache: they would push one another out of it before anyone reads them, and
// a store that goes through the cache first reads what it is about to overwrite.
// (The tests set it low, to take this way with small tensors.)
inline int64_t stream_bytes = 32 << 20;

}  // namespace torch_dml_ops::cpu
