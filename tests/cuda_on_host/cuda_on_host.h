// Runs a CUDA kernel's own source on the CPU, so that its tests need no GPU. Stands in for <cuda_runtime.h>.
//
// Blocks run one after another. The threads of a block are fibers that take turns at each __syncthreads(). It finds
// wrong indices, accesses out of bounds (with AddressSanitizer), missing barriers that the order of the fibers exposes,
// and accesses that are narrower, or more, than they need be (it counts them). It cannot find races that need real
// concurrency, errors of the memory model, or anything about speed.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
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

struct Accesses {
  int64_t loads = 0, stores = 0, bytes_loaded = 0, bytes_stored = 0;
};

inline Index block_index, thread_index, grid_size;
inline Accesses accesses;
inline int64_t largest_32_bit_offset = INT32_MAX;  // smaller, to run the 64-bit kernels on small tensors
inline int64_t most_blocks = 5;                    // fewer than a plan has chunks, so that blocks come back for more
inline bool takes_many_parameters = true;
inline bool reversed = false;                      // the order in which the threads of a block take turns

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

}  // namespace cuda_on_host

#define blockIdx (::cuda_on_host::block_index)
#define gridDim (::cuda_on_host::grid_size)
#define threadIdx (::cuda_on_host::thread_index)
#define __syncthreads() ::cuda_on_host::barrier()

namespace torch_dml_ops::cuda {

inline int64_t largest_32_bit_offset() { return cuda_on_host::largest_32_bit_offset; }
inline int64_t most_blocks(int) { return cuda_on_host::most_blocks; }
inline bool takes_many_parameters() { return cuda_on_host::takes_many_parameters; }

template <class T>
T load(const T* from) {
  ++cuda_on_host::accesses.loads;
  cuda_on_host::accesses.bytes_loaded += int64_t(sizeof(T));
  cuda_on_host::require(reinterpret_cast<uintptr_t>(from) % alignof(T) == 0, "a load is not aligned");
  return *from;
}

template <class T>
void store(T* to, T value) {
  ++cuda_on_host::accesses.stores;
  cuda_on_host::accesses.bytes_stored += int64_t(sizeof(T));
  cuda_on_host::require(reinterpret_cast<uintptr_t>(to) % alignof(T) == 0, "a store is not aligned");
  *to = value;
}

template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), int64_t blocks, int threads, Stream,
            const Parameters& given) {
  using cuda_on_host::require;
  static_assert(std::is_trivially_copyable_v<Parameters>);
  require(blocks >= 1 && blocks <= INT32_MAX, std::string(name) + " was given " + std::to_string(blocks) + " blocks");
  require(threads >= 1 && threads <= 1024, std::string(name) + " was given " + std::to_string(threads) + " threads");
  const std::size_t most = cuda_on_host::takes_many_parameters ? 32764 : 4096;
  require(sizeof(Parameters) <= most, std::string(name) + " has more than " + std::to_string(most) + " bytes of parameters");
  const std::lock_guard lock(cuda_on_host::one_launch_at_a_time);
  cuda_on_host::body = [&] { kernel(given); };
  cuda_on_host::grid_size = {unsigned(blocks), 1, 1};
  for (int64_t b = 0; b < blocks; ++b) {
    cuda_on_host::block_index = {unsigned(b), 0, 0};
    cuda_on_host::run_block(threads);
  }
}

}  // namespace torch_dml_ops::cuda
