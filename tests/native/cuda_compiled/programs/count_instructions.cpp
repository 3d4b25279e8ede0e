// Counts what the compiled kernels execute for plans that are given as text.
//
//     count_instructions < PLANS              for each launch, a line: plan, kernel, blocks, how many an SM runs at
//     once,
//                                             how many were run here; of these, bytes stored, wavefronts in the L1
//                                             cache, and how often their warps ran each basic block
//     count_instructions kernels < PLANS      only the names of the kernels that are launched
//
// A plan is a line as text_plans.h says. Launches are those of an H200. Of many blocks, one of each of a few equal
// parts is run.
#include <array>
#include <cmath>
#include <iostream>
#include <numeric>
#include <set>

#include "addresses.h"
#include "text_plans.h"

using cuda_compiled::u32;
using cuda_compiled::u64;

namespace {

constexpr int64_t kMemoryBytes = int64_t(32) << 30;  // addresses; of most of it nothing is touched
constexpr u32 kMaxBlocks = 16;                       // that are run of a launch

// How often the L1 cache is accessed for the global memory of a block: for each instruction of a warp, or of the part
// of it whose accesses are 128 bytes together, once for each line of 128 bytes.
u64 wavefronts(const std::vector<std::vector<cuda_compiled::Access>>& logs) {
  constexpr u64 kLineBytes = 128, kHostMemory = u64(1) << 32;  // shared memory and parameters have lower addresses
  u64 total = 0;
  for (std::size_t warp = 0; warp < logs.size(); warp += cuda_compiled::kWarpThreads) {
    std::map<std::array<u32, 3>, std::set<u64>> lines;  // by instruction, how often it has run, part of the warp
    for (u32 lane = 0; lane < cuda_compiled::kWarpThreads; ++lane) {
      std::map<u32, u32> times;
      for (const auto& access : logs[warp + lane]) {
        if (access.at < kHostMemory) continue;
        const u32 part = lane * access.bytes / kLineBytes;
        lines[{access.where, times[access.where]++, part}].insert(access.at / kLineBytes);
      }
    }
    for (const auto& [instruction, touched] : lines) total += touched.size();
  }
  return total;
}

void count(const cuda_compiled::Launch& launch, int blocks_per_sm, int64_t plan) {
  const u32 chosen = std::min(launch.blocks, kMaxBlocks);
  std::vector<u32> blocks, threads(launch.kernel->threads);
  for (u32 k = 0; k < chosen; ++k) {  // one of each part of them, not always at the same place of a round
    const double within = std::fmod(k * 0.618034, 1);
    blocks.push_back(u32((k + within) * launch.blocks / chosen));
  }
  std::iota(threads.begin(), threads.end(), 0);
  std::vector<u64> visits(launch.kernel->blocks());
  cuda_compiled::accesses = {};
  std::vector<std::vector<cuda_compiled::Access>> logs;
  u64 in_l1 = 0;
  cuda_compiled::before_block = [&] {
    in_l1 += wavefronts(logs);
    logs.assign(launch.kernel->threads, {});
    for (std::size_t i = 0; i < logs.size(); ++i) cuda_compiled::threads[i].accesses = &logs[i];
  };
  cuda_compiled::run(launch, blocks, threads, &visits);
  cuda_compiled::before_block = [] {};
  in_l1 += wavefronts(logs);
  int64_t stored = 0;
  for (int k = 0; k < 5; ++k) stored += cuda_compiled::accesses.stores[k] << k;
  std::cout << plan << ' ' << launch.kernel->name << ' ' << launch.blocks << ' ' << blocks_per_sm << ' ' << chosen
            << ' ' << stored << ' ' << in_l1;
  for (const u64 n : visits) std::cout << ' ' << n;
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_kernels = argc > 1 && std::string(argv[1]) == "kernels";
  cuda_on_host::devices[0] = cuda_compiled::h200();
  cuda_compiled::use_compiled_registers();
  const auto memory = [] { return cuda_compiled::reserve(kMemoryBytes); };
  const cuda_compiled::Memories memories{memory(), memory(), memory()};
  int64_t plan = 0;
  std::set<std::string> launched;
  cuda_on_host::instead_of_launch = [&](const cuda_on_host::Launch& launch) {
    if (only_kernels)
      launched.insert(cuda_compiled::name_of(launch.kernel));
    else
      count(cuda_compiled::translated(launch),
            cuda_on_host::blocks_per_sm(launch.kernel, launch.threads, std::size_t(launch.shared_bytes)), plan);
  };
  for (std::string line; std::getline(std::cin, line); ++plan) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    cuda_compiled::execute_plan(kind, in, memories);
    for (char* at : {memories.dst, memories.src, memories.lengths})
      madvise(at, std::size_t(kMemoryBytes), MADV_DONTNEED);
  }
  for (const std::string& name : launched) std::cout << name << '\n';
}
