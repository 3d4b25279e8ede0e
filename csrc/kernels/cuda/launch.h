// Launches kernels. What a device allows, and whether a kernel is ready to run there, is found out once and kept,
// because every call needs to know it.
#pragma once

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "device.h"

namespace torch_dml_ops::cuda {

[[noreturn]] inline void fail(cudaError_t error, const std::string& what) {
  cudaGetLastError();  // clears the error, which is reported here
  throw std::runtime_error(what + ": " + cudaGetErrorString(error));
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(error, what);
}

constexpr int kMaxDevices = 128;  // torch numbers devices from 0 to 127

inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "the current CUDA device is not known");
  if (device >= kMaxDevices) throw std::runtime_error("CUDA device " + std::to_string(device) + " is not supported");
  return device;
}

struct DeviceLimits {
  int64_t sm_count;
  int64_t shared_bytes_per_sm;
  int64_t max_shared_bytes_per_block;       // for kernels that ask for it
  int64_t reserved_shared_bytes_per_block;  // taken by CUDA itself, besides those of the kernel
  bool large_kernel_parameters;             // whether kernels may have kMaxLargeParameterBytes of parameters

  // The dynamic shared memory that each block can have if an SM is to run `blocks` of them at once.
  int64_t dynamic_shared_bytes(int64_t blocks, int64_t static_bytes) const {
    constexpr int64_t kUnit = 256;  // of allocation: 128 or 256 bytes, depending on the device
    const int64_t share = shared_bytes_per_sm / blocks / kUnit * kUnit - reserved_shared_bytes_per_block;
    return std::min(share, max_shared_bytes_per_block) - static_bytes;
  }
};

inline const DeviceLimits& limits(int device = current_device()) {
  static std::once_flag known[kMaxDevices];
  static DeviceLimits result[kMaxDevices];
  std::call_once(known[device], [device] {
    const auto attribute = [device](cudaDeviceAttr what) {
      int value = 0;
      check(cudaDeviceGetAttribute(&value, what, device), "an attribute of the CUDA device is not known");
      return int64_t(value);
    };
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "the version of the CUDA driver is not known");
    result[device] = {.sm_count = attribute(cudaDevAttrMultiProcessorCount),
                      .shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
                      .max_shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
                      .reserved_shared_bytes_per_block = attribute(cudaDevAttrReservedSharedMemoryPerBlock),
                      .large_kernel_parameters = driver >= 12010};
  });
  return result[device];
}

// While an object of this class lives, its thread may do what a stream capture forbids. (torch's captures forbid it to
// every thread of the process.)
class AllowDuringCapture {
 public:
  AllowDuringCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~AllowDuringCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AllowDuringCapture(const AllowDuringCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // later the mode that was set before
};

// Makes CUDA load the kernel, which it otherwise does at the first launch. That may be under a stream capture, which
// what loads a kernel, such as an allocation of memory, would invalidate.
template <auto kKernel>
void load_kernel(const char* name, int device) {
  static std::once_flag loaded[kMaxDevices];
  std::call_once(loaded[device], [name] {
    const AllowDuringCapture allow;
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kKernel);
    if (error != cudaSuccess) fail(error, std::string("the CUDA kernel ") + name + " cannot be loaded");
  });
}

// Lets the kernel's blocks have as much dynamic shared memory as the device allows. If each launch asked for what it
// needs, a thread that needs less could lower the limit before another one launches.
template <auto kKernel>
void allow_all_shared_memory(int device) {
  static std::once_flag allowed[kMaxDevices];
  std::call_once(allowed[device], [device] {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, kKernel), "the shared memory of a CUDA kernel is not known");
    const int64_t most = limits(device).max_shared_bytes_per_block - int64_t(attributes.sharedSizeBytes);
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most)),
          "a CUDA kernel cannot have all the shared memory of the device");
  });
}

// Queues a kernel on a stream of the current device. It can be captured into a CUDA graph, at the first launch too.
template <auto kKernel, class Parameters>
void launch(const char* name, int64_t blocks, int threads, Stream stream, const Parameters& parameters,
            int64_t dynamic_shared_bytes = 0) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Parameters)>);
  static_assert(std::is_trivially_copyable_v<Parameters>);
  const int device = current_device();
  load_kernel<kKernel>(name, device);
  if (dynamic_shared_bytes > 0) allow_all_shared_memory<kKernel>(device);
  void* arguments[] = {const_cast<Parameters*>(&parameters)};
  const cudaError_t error = cudaLaunchKernel(kKernel, dim3(unsigned(blocks)), dim3(unsigned(threads)), arguments,
                                             std::size_t(dynamic_shared_bytes), static_cast<cudaStream_t>(stream));
  if (error == cudaSuccess) return;
  fail(error, std::string("the CUDA kernel ") + name + " did not launch with " + std::to_string(blocks) +
                  " blocks of " + std::to_string(threads) + " threads and " + std::to_string(dynamic_shared_bytes) +
                  " bytes of shared memory");
}

// Kernels number chunks in 32 bits. No GPU has the memory for more.
inline uint32_t checked_chunks(int64_t chunks) {
  if (chunks > INT32_MAX) throw std::runtime_error("a copy of " + std::to_string(chunks) + " chunks is too large");
  return uint32_t(chunks);
}

}  // namespace torch_dml_ops::cuda
