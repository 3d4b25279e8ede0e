#ifdef __linux__
#include <unistd.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "engine.h"

namespace torch_dml_ops::cpu {
namespace {

// The L3 cache that a core of an AMD processor shares with its neighbours, 0 on other processors. (The C library adds
// up those of the whole processor.)
int64_t amd_l3_bytes() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kCaches = 0x8000001d, kThird = 3;
  if (!__builtin_cpu_is("amd") || !__get_cpuid_count(kCaches, kThird, &a, &b, &c, &d)) return 0;
  const int64_t line = (b & 0xfff) + 1, partitions = (b >> 12 & 0x3ff) + 1, ways = (b >> 22) + 1;
  return line * partitions * ways * (int64_t(c) + 1);
#else
  return 0;
#endif
}

}  // namespace

Tuning tuning_here() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const int64_t l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), amd_l3 = amd_l3_bytes();
  return tuning_for(l2, amd_l3 ? amd_l3 : sysconf(_SC_LEVEL3_CACHE_SIZE), amd_l3 > 0);
#else
  return {};
#endif
}

}  // namespace torch_dml_ops::cpu
