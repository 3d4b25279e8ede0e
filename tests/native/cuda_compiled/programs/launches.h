// Finds the translated kernel that stands for the host's form of it, in whose place it is launched; and what programs
// launch them on.
#pragma once

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "../../../../csrc/kernels/cuda/launch.h"
#include "machine.h"

namespace cuda_compiled {

// The kernels' host functions, by address: "ADDRESS NAME" in each line of PROGRAM.symbols. The program is linked so
// that addresses are the same in each run.
inline std::map<u64, std::string> read_symbols() {
  char program[4096] = {};
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0) fail("the program does not find itself");
  std::ifstream file(std::string(program) + ".symbols");
  std::map<u64, std::string> result;
  u64 address = 0;
  for (std::string name; file >> std::hex >> address >> name;) result[address] = name;
  return result;
}

inline const std::string& name_of(const void* function) {
  static const std::map<u64, std::string> symbols = read_symbols();
  const auto found = symbols.find(reinterpret_cast<u64>(function));
  if (found == symbols.end()) fail("a kernel without a name was launched");
  return found->second;
}

inline const Kernel* kernel_named(const std::string& name) {
  for (const Kernel& k : kernels())
    if (name == k.name) return &k;
  return nullptr;
}

inline Launch translated(const cuda_on_host::Launch& launch) {
  const std::string& name = name_of(launch.kernel);
  const Kernel* k = kernel_named(name);
  if (!k) fail("%s was not compiled", name.c_str());
  if (launch.parameter_bytes != k->parameter_bytes)
    fail("%s: %zu bytes of parameters, compiled for %u", k->name, launch.parameter_bytes, k->parameter_bytes);
  if (launch.threads != int(k->threads)) fail("%s: %d threads, compiled for %u", k->name, launch.threads, k->threads);
  return {k, launch.parameters, u32(launch.blocks), std::size_t(launch.shared_bytes)};
}

// So that as many blocks are taken to run at once as the compiled kernels' registers allow.
inline void use_compiled_registers() {
  cuda_on_host::registers = [](const void* kernel) {
    const Kernel* k = kernel_named(name_of(kernel));
    return k ? int(k->registers) : 64;
  };
}

// An H200, or one with another number of SMs.
inline cuda_on_host::Device h200(int sm_count = 132) {
  return {.sm_count = sm_count,
          .max_threads_per_sm = 2048,
          .shared_bytes_per_sm = 228 << 10,
          .max_shared_bytes_per_block = 227 << 10,
          .reserved_shared_bytes_per_block = 1 << 10,
          .driver_version = 13000};
}

}  // namespace cuda_compiled
