// Runs one kernel that was made from a test's PTX: a block of 64 threads, given the addresses of 64 numbers to load and
// of 64 to store.
//
//     self_test KERNEL        prints what was stored, and how often the warps ran each basic block
#include <numeric>

#include "machine.h"

using namespace cuda_compiled;

int main(int, char** argv) {
  constexpr u32 kCount = 64;
  alignas(16) static u32 in[kCount], out[kCount];
  for (u32 i = 0; i < kCount; ++i) in[i] = i < 8 ? 0x80000000u + 0x01234567u * i : 0x9E3779B9u * i;
  const auto from = reinterpret_cast<u64>(in), to = reinterpret_cast<u64>(out);
  max_visits = 100'000;
  allowed.everything = false;
  allowed.readable = {{from, from + sizeof(in)}};
  for (u64 at = from; at < from + sizeof(in); at += kGranuleBytes) allowed.granules.push_back(at / kGranuleBytes);
  allowed.writable = {{to, to + sizeof(out)}};
  allowed.times_written.emplace_back(sizeof(out));
  const u64 addresses[] = {from, to};
  std::vector<u32> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  for (const Kernel& k : kernels()) {
    if (std::string(k.name) != argv[1]) continue;
    std::vector<u64> visits(k.blocks());
    run({&k, addresses, 1, 0}, {0}, order, &visits);
    for (const u32 n : in) std::printf("%u ", n);
    std::printf("\n");
    for (const u32 n : out) std::printf("%u ", n);
    std::printf("\n");
    for (const u64 n : visits) std::printf("%llu ", static_cast<unsigned long long>(n));
    std::printf("\n");
  }
  return 0;
}
