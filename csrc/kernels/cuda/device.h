// What the kernels use of CUDA. Compiled as plain C++ (without __CUDACC__), the same names come from the test suite's
// cuda_on_host.h, which runs a kernel's threads on the CPU and counts what they load and store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

namespace torch_dml_ops::cuda {

// Kernels access global memory only through these.
template <class T>
__device__ __forceinline__ T load(const T* from) {
  return *from;
}
template <class T>
__device__ __forceinline__ void store(T* to, T value) {
  *to = value;
}

// Kernels compute in 32 bits if no offset or index is larger than this.
constexpr int64_t max_32_bit_index() { return INT32_MAX; }

// The dynamic shared memory of a launch.
template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ uint4 shared[];
  return reinterpret_cast<T*>(shared);
}

}  // namespace torch_dml_ops::cuda

#else
#include "cuda_on_host.h"
#endif

namespace torch_dml_ops::cuda {

constexpr int kThreadsPerBlock = 256, kWarpSize = 32;

// How many blocks an SM's threads are enough for. ptxas ignores a bound that asks for more.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100)
constexpr int kMaxBlocksPerSM = 2048 / kThreadsPerBlock;
#elif __CUDA_ARCH__ == 750
constexpr int kMaxBlocksPerSM = 1024 / kThreadsPerBlock;
#else
constexpr int kMaxBlocksPerSM = 1536 / kThreadsPerBlock;
#endif

// The least occupancy: how many blocks an SM runs at once, as many as its threads allow. While some wait for what they
// load, others compute and store. It leaves a thread 32 registers (40 where an SM has 1536 threads), which are enough
// for most kernels with 32-bit offsets.
template <class Offset>
constexpr int kMinBlocksPerSM = sizeof(Offset) == 4 ? kMaxBlocksPerSM : 4;

constexpr std::size_t kMaxParameterBytes = 4096;        // of a kernel's parameters, with any driver
constexpr std::size_t kMaxLargeParameterBytes = 32764;  // with drivers for CUDA 12.1 or later

struct Item16 {
  uint64_t low, high;
} __attribute__((aligned(16)));

// Calls f with a value of the unsigned type of the item's size.
template <class F>
void dispatch_item_size(int64_t item_size, F f) {
  switch (item_size) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    default:
      return f(Item16());
  }
}

}  // namespace torch_dml_ops::cuda
