// Runs a CUDA kernel's own source on the CPU, so that its tests need no GPU. Stands in for <cuda_runtime.h>.
//
// Blocks run one after another. The threads of a block are fibers that take turns at each __syncthreads(). It finds
// wrong indices, accesses out of bounds (with AddressSanitizer), missing barriers that the order of the fibers exposes,
// and accesses that are narrower, more, or further apart than they need be (it counts them). It cannot find races that
// need real concurrency, errors of the memory model, or anything about speed.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // one block at a time, so one copy will do

namespace cuda_on_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// What kernels loaded from global memory, or what they stored there.
struct Traffic {
  int64_t count = 0, bytes = 0;
  int64_t by_width[5] = {};  // of 1, 2, 4, 8 and 16 bytes
  // While accesses are recorded:
  int64_t sectors = 0;           // of 32 bytes, the unit that GPUs fetch: those of each access of a whole warp
  int64_t distinct_bytes = 0;    // each once in every block
  int64_t distinct_sectors = 0;  // each once in every block
};

struct Accesses {
  int64_t launches = 0, blocks = 0;
  Traffic loads, stores;
};

constexpr uintptr_t kSectorBytes = 32;
constexpr unsigned kWarpThreads = 32;

struct Access {
  uintptr_t address;
  std::size_t width;
  unsigned thread;
  uint64_t place;  // in the kernel's source
};

inline Index block_index, thread_index, grid_size;
inline Accesses accesses;
inline std::vector<Access> block_loads, block_stores;  // of the block that runs, if they are recorded
inline bool recording = false;  // of single accesses, for what is told of them together; it slows everything down
inline int64_t max_32_bit_index = INT32_MAX;  // smaller, to run the 64-bit kernels on small tensors
inline int64_t sm_count = 1;                  // so few that blocks come back for more
inline bool has_large_kernel_parameters = true;
inline int64_t max_shared_bytes = 99 << 10;
inline std::vector<uint64_t> shared_memory;  // of the block that runs
inline bool reversed = false;                // the order in which the threads of a block take turns

inline std::mutex one_launch_at_a_time;
inline ucontext_t scheduler;
inline std::vector<ucontext_t> fibers;
inline std::vector<std::vector<char>> stacks;
inline std::vector<bool> finished;
inline std::size_t current;
inline std::function<void()> body;

inline void barrier() { swapcontext(&fibers[current], &scheduler); }

inline void fiber_main() {
  body();
  finished[current] = true;
  swapcontext(&fibers[current], &scheduler);
}

inline void run_block(int threads) {
  constexpr std::size_t kStackBytes = 256 << 10;
  const auto n = std::size_t(threads);
  while (stacks.size() < n) stacks.emplace_back(kStackBytes);
  fibers.assign(n, {});
  finished.assign(n, false);
  for (std::size_t i = 0; i < n; ++i) {
    getcontext(&fibers[i]);
    fibers[i].uc_stack.ss_sp = stacks[i].data();
    fibers[i].uc_stack.ss_size = kStackBytes;
    makecontext(&fibers[i], fiber_main, 0);
  }
  for (bool left = true; left;) {  // a round from barrier to barrier
    left = false;
    for (std::size_t k = 0; k < n; ++k) {
      current = reversed ? n - 1 - k : k;
      if (finished[current]) continue;
      thread_index = {unsigned(current), 0, 0};
      swapcontext(&scheduler, &fibers[current]);
      left |= !finished[current];
    }
  }
}

inline void require(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error("cuda_on_host: " + text);
}

inline void note(Traffic& traffic, std::vector<Access>& of_block, const void* at, std::size_t width,
                 const std::source_location& from) {
  ++traffic.count;
  traffic.bytes += int64_t(width);
  ++traffic.by_width[std::min(std::countr_zero(width), 4)];
  const uint64_t place = uint64_t(from.line()) << 32 | from.column();
  if (recording) of_block.push_back({reinterpret_cast<uintptr_t>(at), width, thread_index.x, place});
}

// Adds to `traffic` what can be told of a block's accesses only together.
inline void sum_up(Traffic& traffic, std::vector<Access>& of_block) {
  // A warp's threads make the n-th access of each of them at one place of the source together. (Where a branch keeps
  // some of them from one, their next is taken for it, and the sectors are not exact.)
  struct WarpSector {
    uint64_t place;
    unsigned warp, nth;
    uintptr_t sector;
    auto operator<=>(const WarpSector&) const = default;
  };
  std::vector<WarpSector> sectors;
  std::stable_sort(of_block.begin(), of_block.end(), [](const Access& a, const Access& b) {
    return a.place != b.place ? a.place < b.place : a.thread < b.thread;
  });
  unsigned nth = 0;
  for (std::size_t i = 0; i < of_block.size(); ++i) {
    const Access& a = of_block[i];
    nth = i > 0 && of_block[i - 1].place == a.place && of_block[i - 1].thread == a.thread ? nth + 1 : 0;
    const uintptr_t last = (a.address + a.width - 1) / kSectorBytes;
    for (uintptr_t sector = a.address / kSectorBytes; sector <= last; ++sector)
      sectors.push_back({a.place, a.thread / kWarpThreads, nth, sector});
  }
  std::sort(sectors.begin(), sectors.end());
  traffic.sectors += std::unique(sectors.begin(), sectors.end()) - sectors.begin();

  std::sort(of_block.begin(), of_block.end(), [](const Access& a, const Access& b) { return a.address < b.address; });
  uintptr_t end = 0, sector_end = 0;  // of what is counted
  for (const Access& a : of_block) {
    const uintptr_t a_end = a.address + a.width, a_sector_end = (a_end + kSectorBytes - 1) / kSectorBytes;
    if (a_end > end) traffic.distinct_bytes += int64_t(a_end - std::max(a.address, end));
    if (a_sector_end > sector_end)
      traffic.distinct_sectors += int64_t(a_sector_end - std::max(a.address / kSectorBytes, sector_end));
    end = std::max(end, a_end);
    sector_end = std::max(sector_end, a_sector_end);
  }
  of_block.clear();
}

}  // namespace cuda_on_host

#define blockIdx (::cuda_on_host::block_index)
#define gridDim (::cuda_on_host::grid_size)
#define threadIdx (::cuda_on_host::thread_index)
#define __syncthreads() ::cuda_on_host::barrier()

namespace torch_dml_ops::cuda {

inline int64_t max_32_bit_index() { return cuda_on_host::max_32_bit_index; }
inline int64_t sm_count() { return cuda_on_host::sm_count; }
inline int64_t max_threads_per_sm() { return 256; }
inline int64_t max_shared_bytes() { return cuda_on_host::max_shared_bytes; }
template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(cuda_on_host::shared_memory.data());
}
inline bool has_large_kernel_parameters() { return cuda_on_host::has_large_kernel_parameters; }

template <class T>
T load(const T* from, const std::source_location& place = std::source_location::current()) {
  using namespace cuda_on_host;
  note(accesses.loads, block_loads, from, sizeof(T), place);
  require(reinterpret_cast<uintptr_t>(from) % alignof(T) == 0, "a load is not aligned");
  return *from;
}

template <class T>
void store(T* to, T value, const std::source_location& place = std::source_location::current()) {
  using namespace cuda_on_host;
  note(accesses.stores, block_stores, to, sizeof(T), place);
  require(reinterpret_cast<uintptr_t>(to) % alignof(T) == 0, "a store is not aligned");
  *to = value;
}

template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), int64_t blocks, int threads, Stream, const Parameters& given,
            int64_t shared_bytes = 0) {
  using cuda_on_host::require;
  static_assert(std::is_trivially_copyable_v<Parameters>);
  require(blocks >= 1 && blocks <= INT32_MAX, std::string(name) + " was given " + std::to_string(blocks) + " blocks");
  require(threads >= 1 && threads <= 1024, std::string(name) + " was given " + std::to_string(threads) + " threads");
  const std::size_t most = cuda_on_host::has_large_kernel_parameters ? 32764 : 4096;
  require(sizeof(Parameters) <= most,
          std::string(name) + " has more than " + std::to_string(most) + " bytes of parameters");
  require(shared_bytes <= cuda_on_host::max_shared_bytes, std::string(name) + " asks for too much shared memory");
  const std::lock_guard lock(cuda_on_host::one_launch_at_a_time);
  cuda_on_host::shared_memory.assign(std::size_t(shared_bytes + 7) / 8, 0);
  cuda_on_host::shared_memory.shrink_to_fit();  // its end is the end of what may be accessed
  cuda_on_host::body = [&] { kernel(given); };
  cuda_on_host::grid_size = {unsigned(blocks), 1, 1};
  ++cuda_on_host::accesses.launches;
  for (int64_t b = 0; b < blocks; ++b) {
    cuda_on_host::block_index = {unsigned(b), 0, 0};
    cuda_on_host::run_block(threads);
    ++cuda_on_host::accesses.blocks;
    cuda_on_host::sum_up(cuda_on_host::accesses.loads, cuda_on_host::block_loads);
    cuda_on_host::sum_up(cuda_on_host::accesses.stores, cuda_on_host::block_stores);
  }
}

}  // namespace torch_dml_ops::cuda
