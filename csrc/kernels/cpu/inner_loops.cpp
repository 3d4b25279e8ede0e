#include "inner_loops.h"

#include <cstdlib>
#include <span>
#include <string_view>

#include "simd_level.h"
#ifdef TORCH_DML_OPS_X86_LEVELS
#include <cpuid.h>
#endif

namespace torch_dml_ops::cpu {
namespace {

#ifdef TORCH_DML_OPS_X86_LEVELS
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
// Intel's from Sapphire Rapids on, which have AVX512-FP16: gathers of earlier ones may be slowed down by what mitigates
// Downfall, and AMD's are slower than panels.
bool has_fast_gathers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_is("intel") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}
#endif

bool always() { return true; }

constexpr SimdLevel kSimdLevels[] = {
    {baseline::kLoops, always, always},
#ifdef TORCH_DML_OPS_X86_LEVELS
    {avx2::kLoops, has_avx2, always},
    {avx512::kLoops, has_avx512, always},
    {avx512::kLoopsWithGathers, has_avx512, has_fast_gathers},
#endif
};

const InnerLoops& choose() {
  const char* highest = std::getenv("TORCH_DML_OPS_SIMD");
  const InnerLoops* chosen = nullptr;
  for (const SimdLevel& level : simd_levels()) {
    const bool named = highest && std::string_view(highest) == level.loops.level;
    if (level.is_supported() && (level.is_fast() || named)) chosen = &level.loops;
    if (named) break;
  }
  return *chosen;
}

}  // namespace

std::span<const SimdLevel> simd_levels() { return kSimdLevels; }

void non_temporal_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

const InnerLoops& inner_loops() {
  static const InnerLoops& chosen = choose();
  return chosen;
}

}  // namespace torch_dml_ops::cpu
