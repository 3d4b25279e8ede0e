// What the kernels take from CUDA, in one place. Compiled as plain C++ (no __CUDACC__), the same names come from the
// test suite's cuda_on_host.h, which runs a kernel's threads on the CPU and counts what they load and store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "engine.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

namespace torch_dml_ops::cuda {

// Every access of a kernel to global memory goes through these two.
template <class T>
__device__ __forceinline__ T load(const T* from) {
  return *from;
}
template <class T>
__device__ __forceinline__ void store(T* to, T value) {
  *to = value;
}

// Offsets up to here are computed in 32 bits.
constexpr int64_t largest_32_bit_offset() { return INT32_MAX; }

template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), int64_t blocks, int threads, Stream stream,
            const Parameters& parameters) {
  kernel<<<dim3(unsigned(blocks)), dim3(unsigned(threads)), 0, static_cast<cudaStream_t>(stream)>>>(parameters);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("the CUDA kernel ") + name + " did not launch with " + std::to_string(blocks) +
                             " blocks of " + std::to_string(threads) + " threads: " + cudaGetErrorString(error));
}

}  // namespace torch_dml_ops::cuda

#else
#include "cuda_on_host.h"
#endif

namespace torch_dml_ops::cuda {

constexpr int kThreads = 256;

// Items that a thread moves. Their loads are all on their way before the first store waits for one.
constexpr int kItemsPerThread = 4;
constexpr int kItemsPerBlock = kThreads * kItemsPerThread;

constexpr std::size_t kMostParameterBytes = 4096;  // what a kernel takes by value with any toolkit and driver

struct Item16 {
  uint64_t low, high;
} __attribute__((aligned(16)));

// Calls f with a value of the unsigned type that has the item's size.
template <class F>
void with_item_type(int64_t item_size, F f) {
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

// Division by a number that is known at launch, without a division in the kernel where 32 bits are enough: for
// 1 <= d < 2^31 and 0 <= n < 2^31, n / d = (n + high 32 bits of n · m) >> s (Granlund and Montgomery, 1994).
template <class Offset>
struct Divisor;

template <>
struct Divisor<int32_t> {
  uint32_t divisor, multiplier, shift;

  Divisor() = default;
  explicit Divisor(int64_t d) : divisor(uint32_t(d)), multiplier(0), shift(0) {
    while ((int64_t(1) << shift) < d) ++shift;
    multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - uint64_t(d))) / uint64_t(d) + 1);
  }
  __device__ int32_t quotient(int32_t n) const {
    const uint32_t high = uint32_t((uint64_t(uint32_t(n)) * multiplier) >> 32);
    return int32_t((high + uint32_t(n)) >> shift);
  }
};

template <>
struct Divisor<int64_t> {
  int64_t divisor;

  Divisor() = default;
  explicit Divisor(int64_t d) : divisor(d) {}
  __device__ int64_t quotient(int64_t n) const { return n / divisor; }
};

// Adds what a walk of `size` places by `stride` reaches to the largest offset so far.
inline void add_reach(int64_t& reach, int64_t size, int64_t stride) {
  reach += (size - 1) * (stride < 0 ? -stride : stride);
}

}  // namespace torch_dml_ops::cuda
