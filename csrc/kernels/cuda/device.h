// All that the kernels use of CUDA. Compiled as plain C++ (without __CUDACC__), the same names come from the test
// suite's cuda_on_host.h, which runs a kernel's threads on the CPU and counts what they load and store.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

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

inline void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clear the error: it is reported here
  throw std::runtime_error(what + ": " + cudaGetErrorString(error));
}

// Of the current device.
inline int device_attribute(cudaDeviceAttr what) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "the current CUDA device is not known");
  check(cudaDeviceGetAttribute(&value, what, device), "an attribute of the CUDA device is not known");
  return value;
}
inline int64_t sm_count() { return device_attribute(cudaDevAttrMultiProcessorCount); }
inline int64_t max_threads_per_sm() { return device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor); }
inline int64_t max_shared_bytes() { return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin); }

// The dynamic shared memory of a launch.
template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ uint4 shared[];
  return reinterpret_cast<T*>(shared);
}

// Whether the driver allows kMaxLargeParameterBytes of kernel parameters.
inline bool has_large_kernel_parameters() {
  static const bool result = [] {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess && version >= 12010;
  }();
  return result;
}

template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), int64_t blocks, int threads, Stream stream,
            const Parameters& parameters, int64_t shared_bytes = 0) {
  constexpr int64_t kDefaultSharedBytes = 48 << 10;  // a kernel has to opt in to more
  const auto what = [&] {
    return std::string("the CUDA kernel ") + name + " did not launch with " + std::to_string(blocks) + " blocks of " +
           std::to_string(threads) + " threads and " + std::to_string(shared_bytes) + " bytes of shared memory";
  };
  const void* function = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kDefaultSharedBytes)
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)), what());
  void* arguments[] = {const_cast<Parameters*>(&parameters)};
  const cudaError_t error = cudaLaunchKernel(function, dim3(unsigned(blocks)), dim3(unsigned(threads)), arguments,
                                             std::size_t(shared_bytes), static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) check(error, what());
}

}  // namespace torch_dml_ops::cuda

#else
#include "cuda_on_host.h"
#endif

namespace torch_dml_ops::cuda {

constexpr int kThreadsPerBlock = 256;

// The least occupancy: how many blocks an SM runs at once. It leaves a thread 64 registers, which are enough; without
// it the compiler spills values to memory to get by with 48.
constexpr int kMinBlocksPerSM = 4;

// How many vectors of a chunk a thread moves. It issues all of their loads before the first store waits for one. With
// 64-bit offsets there are registers for fewer.
template <class Offset>
constexpr int kVecsPerThread = sizeof(Offset) == 4 ? 4 : 2;
constexpr int kMaxVecsPerChunk = kThreadsPerBlock * kVecsPerThread<int32_t>;

// How many of `total` vectors make a chunk: fewer if some SM would otherwise get none.
template <class Offset>
int vecs_per_chunk(int64_t total) {
  int each = kThreadsPerBlock * kVecsPerThread<Offset>;
  while (each > kThreadsPerBlock && total < each * sm_count()) each /= 2;
  return each;
}

// Kernels number chunks in 32 bits. No GPU has the memory for more.
inline uint32_t checked_chunks(int64_t chunks) {
  if (chunks > INT32_MAX) throw std::runtime_error("a copy of " + std::to_string(chunks) + " chunks is too large");
  return uint32_t(chunks);
}

// How many blocks to launch for so many chunks: at most one per chunk, and a few waves of what the device runs at once,
// so that SMs which finish early get more to do.
inline int64_t grid_size(int64_t chunks) {
  constexpr int64_t kWaves = 4;
  return std::min(chunks, std::max<int64_t>(kWaves * sm_count() * (max_threads_per_sm() / kThreadsPerBlock), 1));
}

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
