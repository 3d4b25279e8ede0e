// Runs a CUDA kernel's own source on the CPU, and what launches it, so that its tests need no GPU. Stands in for
// <cuda_runtime.h>.
//
// Blocks run one after another, and so do the threads of a block, which take turns at each __syncthreads(). It finds
// wrong indices, accesses out of bounds (with AddressSanitizer, or loads where it is told what is readable), missing
// barriers that the order of the threads exposes, and accesses that are narrower, more, or further apart than they need
// be (it counts them). It cannot find races that need real concurrency, errors of the memory model, or anything about
// speed.
//
// The functions of CUDA's runtime refuse what the real ones refuse, and are counted.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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
  int line;  // of the kernel's source
};

inline Index block_index, thread_index, grid_size;
inline Accesses accesses;
inline std::vector<Access> block_loads, block_stores;  // of the block that runs, if they are recorded
inline bool recording = false;  // of single accesses, for what is told of them together; it slows everything down
inline int64_t max_32_bit_index = INT32_MAX;         // smaller, to run the 64-bit kernels on small tensors
inline std::vector<uint64_t> shared_memory;          // of the block that runs
inline std::vector<std::span<const char>> readable;  // if not empty, the memory that kernels may load from
inline bool reversed = false;                        // the order in which the threads of a block take turns

// A launch, and what it was given.
struct Launch {
  const void* kernel;
  int64_t blocks;
  int threads;
  const void* parameters;
  std::size_t parameter_bytes;
  int64_t shared_bytes;
  std::function<void()> run;  // runs the kernel on the CPU
};
inline std::function<void(const Launch&)> instead_of_launch;  // if set, what launches do

inline std::mutex one_launch_at_a_time;
inline ucontext_t scheduler;
inline std::vector<ucontext_t> fibers;
inline std::vector<std::vector<char>> stacks;
inline std::size_t current;      // the fiber that runs
inline bool waits;               // at a barrier, when it stops
inline unsigned begun, threads;  // of the block
inline std::function<void()> body;

inline void barrier() {
  const Index here = thread_index;
  waits = true;
  swapcontext(&fibers[current], &scheduler);
  thread_index = here;
}

// What a fiber does: threads one after another. One that waits keeps it, and the next ones begin on another fiber.
inline void fiber_main() {
  while (begun < threads) {
    thread_index = {reversed ? threads - 1 - begun : begun, 0, 0};
    ++begun;
    body();
  }
  waits = false;
  swapcontext(&fibers[current], &scheduler);
}

inline void run_block(unsigned of_threads) {
  constexpr std::size_t kStackBytes = 256 << 10;
  begun = 0;
  threads = of_threads;
  if (fibers.size() < threads) fibers.resize(threads);
  std::vector<std::size_t> waiting;
  const auto run = [&](std::size_t fiber) {
    current = fiber;
    swapcontext(&scheduler, &fibers[fiber]);
    return waits;
  };
  for (std::size_t fiber = 0; begun < threads; ++fiber) {
    if (stacks.size() == fiber) stacks.emplace_back(kStackBytes);
    getcontext(&fibers[fiber]);
    fibers[fiber].uc_stack.ss_sp = stacks[fiber].data();
    fibers[fiber].uc_stack.ss_size = kStackBytes;
    makecontext(&fibers[fiber], fiber_main, 0);
    if (run(fiber)) waiting.push_back(fiber);
  }
  while (!waiting.empty()) std::erase_if(waiting, [&](std::size_t fiber) { return !run(fiber); });
}

inline void require(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error("cuda_on_host: " + text);
}

inline void note(Traffic& traffic, std::vector<Access>& of_block, const void* at, std::size_t width, int line) {
  ++traffic.count;
  traffic.bytes += int64_t(width);
  ++traffic.by_width[std::min(std::countr_zero(width), 4)];
  if (recording) of_block.push_back({reinterpret_cast<uintptr_t>(at), width, thread_index.x, line});
}

// Adds to `traffic` what can be told of a block's accesses only together.
inline void sum_up(Traffic& traffic, std::vector<Access>& of_block) {
  // A warp's threads make the n-th access of each of them on one line of the source together. (Where a branch keeps
  // some of them from one, their next is taken for it, and the sectors are not exact.)
  struct WarpSector {
    int line;
    unsigned warp, nth;
    uintptr_t sector;
    auto operator<=>(const WarpSector&) const = default;
  };
  std::vector<WarpSector> sectors;
  std::stable_sort(of_block.begin(), of_block.end(), [](const Access& a, const Access& b) {
    return a.line != b.line ? a.line < b.line : a.thread < b.thread;
  });
  unsigned nth = 0;
  for (std::size_t i = 0; i < of_block.size(); ++i) {
    const Access& a = of_block[i];
    nth = i > 0 && of_block[i - 1].line == a.line && of_block[i - 1].thread == a.thread ? nth + 1 : 0;
    const uintptr_t last = (a.address + a.width - 1) / kSectorBytes;
    for (uintptr_t sector = a.address / kSectorBytes; sector <= last; ++sector)
      sectors.push_back({a.line, a.thread / kWarpThreads, nth, sector});
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

namespace cuda_on_host {

// What launches ask of a device.
struct Device {
  int sm_count = 1;  // so few that small plans run through the code of large ones
  int max_threads_per_sm = 256;
  int shared_bytes_per_sm = 100 << 10, max_shared_bytes_per_block = 99 << 10, reserved_shared_bytes_per_block = 1 << 10;
  int driver_version = 13000;
};

// What the runtime keeps of a kernel on a device.
struct Kernel {
  bool loaded = false;
  int64_t max_dynamic_shared_bytes = 0;
};

// How often the runtime's functions were called that are to be called once.
struct RuntimeCalls {
  int64_t device_attributes = 0, kernel_attributes = 0, kernel_limits = 0;
};

constexpr int64_t kStaticSharedBytes = 512;        // of every kernel, as if it had so many
constexpr int64_t kDefaultSharedBytes = 48 << 10;  // of a block, unless its kernel asks for more
inline std::array<Device, 256> devices;            // constant once they are in use, as launches remember them
inline thread_local int current_device = 0;
inline std::atomic<bool> capturing = false;        // into a graph, by any thread: kernels are launched but do not run
inline thread_local bool relaxed_capture = false;  // whether this thread may load kernels during a capture
inline std::string failing;                        // the name of a runtime function that is to fail
inline std::mutex runtime_lock;                    // of what follows
inline std::map<std::pair<const void*, int>, Kernel> kernels;
inline RuntimeCalls runtime_calls;
// Registers of a thread, of which an SM has 65536; as many as every kernel may have, unless compiled kernels are run.
inline std::function<int(const void* kernel)> registers = [](const void*) { return 64; };
inline int64_t launched_shared_bytes = 0;  // of the last launch

}  // namespace cuda_on_host

using cudaStream_t = void*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorUnknown = 999,
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrReservedSharedMemoryPerBlock,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed };
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
};
struct dim3 {
  explicit dim3(unsigned x) : x(x) {}
  unsigned x;
};

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidValue               ? "invalid argument"
         : error == cudaErrorStreamCaptureUnsupported ? "operation not permitted when stream is capturing"
                                                      : "unknown error";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaGetDevice(int* device) {
  *device = cuda_on_host::current_device;
  return cuda_on_host::failing == "cudaGetDevice" ? cudaErrorUnknown : cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int number) {
  using namespace cuda_on_host;
  const std::lock_guard lock(runtime_lock);
  ++runtime_calls.device_attributes;
  const Device& device = devices.at(std::size_t(number));
  switch (what) {
    case cudaDevAttrMultiProcessorCount:
      *value = device.sm_count;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = device.shared_bytes_per_sm;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = device.max_shared_bytes_per_block;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = device.reserved_shared_bytes_per_block;
      break;
  }
  return failing == "cudaDeviceGetAttribute" ? cudaErrorUnknown : cudaSuccess;
}

inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_on_host::devices[std::size_t(cuda_on_host::current_device)].driver_version;
  return cuda_on_host::failing == "cudaDriverGetVersion" ? cudaErrorUnknown : cudaSuccess;
}

inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const bool relaxed = *mode == cudaStreamCaptureModeRelaxed;
  *mode = cuda_on_host::relaxed_capture ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
  cuda_on_host::relaxed_capture = relaxed;
  return cudaSuccess;
}

namespace cuda_on_host {

// The kernel on the current device, loaded by the first call that needs it. Null where a capture forbids to load it.
inline Kernel* loaded(const void* function) {
  Kernel& kernel = kernels[{function, current_device}];
  if (kernel.loaded) return &kernel;
  if (capturing && !relaxed_capture) return nullptr;
  kernel = {true, kDefaultSharedBytes - kStaticSharedBytes};
  return &kernel;
}

}  // namespace cuda_on_host

template <class Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters)) {
  using namespace cuda_on_host;
  const std::lock_guard lock(runtime_lock);
  ++runtime_calls.kernel_attributes;
  if (failing == "cudaFuncGetAttributes") return cudaErrorUnknown;
  attributes->sharedSizeBytes = kStaticSharedBytes;
  return loaded(reinterpret_cast<const void*>(kernel)) ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

namespace cuda_on_host {

// How many blocks an SM of the current device runs at once.
inline int blocks_per_sm(const void* kernel, int threads, std::size_t shared_bytes) {
  const Device& device = devices[std::size_t(current_device)];
  const int by_registers = (64 << 10) / ((registers(kernel) + 7) / 8 * 8 * threads);
  const auto memory = int(shared_bytes) + device.reserved_shared_bytes_per_block;
  const int by_memory = device.shared_bytes_per_sm / std::max(memory, 1);
  return std::min({device.max_threads_per_sm / threads, by_registers, by_memory});
}

}  // namespace cuda_on_host

template <class Parameters>
cudaError_t cudaFuncSetAttribute(void (*function)(Parameters), cudaFuncAttribute, int value) {
  using namespace cuda_on_host;
  const std::lock_guard lock(runtime_lock);
  ++runtime_calls.kernel_limits;
  if (failing == "cudaFuncSetAttribute") return cudaErrorUnknown;
  const int most = devices[std::size_t(current_device)].max_shared_bytes_per_block;
  if (value < 0 || value + kStaticSharedBytes > most) return cudaErrorInvalidValue;
  Kernel* kernel = loaded(reinterpret_cast<const void*>(function));
  if (!kernel) return cudaErrorStreamCaptureUnsupported;
  kernel->max_dynamic_shared_bytes = value;
  return cudaSuccess;
}

template <class Parameters>
cudaError_t cudaLaunchKernel(void (*function)(Parameters), dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t) {
  using namespace cuda_on_host;
  {
    const std::lock_guard lock(runtime_lock);
    const std::size_t most = devices[std::size_t(current_device)].driver_version >= 12010 ? 32764 : 4096;
    const Kernel* kernel = loaded(reinterpret_cast<const void*>(function));
    if (!kernel) return cudaErrorStreamCaptureUnsupported;
    if (grid.x < 1 || grid.x > INT32_MAX || block.x < 1 || block.x > 1024 || sizeof(Parameters) > most ||
        int64_t(shared_bytes) > kernel->max_dynamic_shared_bytes)
      return cudaErrorInvalidValue;
    launched_shared_bytes = int64_t(shared_bytes);
  }
  if (capturing) return cudaSuccess;
  const std::lock_guard lock(one_launch_at_a_time);
  const auto run = [&] {
    shared_memory.assign((shared_bytes + 7) / 8, 0);
    shared_memory.shrink_to_fit();  // its end is the end of what may be accessed
    body = [&] { function(*static_cast<const Parameters*>(arguments[0])); };
    grid_size = {grid.x, 1, 1};
    ++accesses.launches;
    for (unsigned b = 0; b < grid.x; ++b) {
      block_index = {b, 0, 0};
      run_block(block.x);
      ++accesses.blocks;
      sum_up(accesses.loads, block_loads);
      sum_up(accesses.stores, block_stores);
    }
  };
  if (instead_of_launch)
    instead_of_launch({reinterpret_cast<const void*>(function), grid.x, int(block.x), arguments[0], sizeof(Parameters),
                       int64_t(shared_bytes), run});
  else
    run();
  return cudaSuccess;
}

namespace torch_dml_ops::cuda {

inline int64_t max_32_bit_index() { return cuda_on_host::max_32_bit_index; }
template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(cuda_on_host::shared_memory.data());
}

template <class T>
T load(const T* from, int line = __builtin_LINE()) {
  using namespace cuda_on_host;
  note(accesses.loads, block_loads, from, sizeof(T), line);
  require(reinterpret_cast<uintptr_t>(from) % alignof(T) == 0, "a load is not aligned");
  const auto holds = [first = reinterpret_cast<const char*>(from)](std::span<const char> memory) {
    return first >= memory.data() && first + sizeof(T) <= memory.data() + memory.size();
  };
  require(readable.empty() || std::any_of(readable.begin(), readable.end(), holds), "a load is out of bounds");
  return *from;
}

template <class T>
void store(T* to, T value, int line = __builtin_LINE()) {
  using namespace cuda_on_host;
  note(accesses.stores, block_stores, to, sizeof(T), line);
  require(reinterpret_cast<uintptr_t>(to) % alignof(T) == 0, "a store is not aligned");
  *to = value;
}

}  // namespace torch_dml_ops::cuda
