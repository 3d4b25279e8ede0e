// Addresses for tensors that are larger than the memory.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace cuda_compiled {

// Addresses for so many bytes, which take memory where they are used.
inline char* reserve(int64_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* at = mmap(nullptr, std::size_t(bytes), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (at == MAP_FAILED) {
    std::printf("there are no addresses for %lld bytes\n", static_cast<long long>(bytes));
    std::exit(2);
  }
  return static_cast<char*>(at);
}

}  // namespace cuda_compiled
