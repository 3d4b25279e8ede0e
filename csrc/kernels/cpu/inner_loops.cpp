#include "inner_loops.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "engine.h"

namespace torch_dml_ops::cpu {
namespace {

using Item1 = uint8_t;
using Item2 = uint16_t;
using Item4 = uint32_t;
using Item8 = uint64_t;
typedef uint64_t Item16 __attribute__((vector_size(16)));

namespace baseline {
constexpr const char* kLevel = "baseline";
constexpr bool kShufflesBytes = false;  // within each 16 bytes of a vector
#ifdef __aarch64__
constexpr bool kIsNeon = true;
#else
constexpr bool kIsNeon = false;
#endif
constexpr int64_t kVectorBytes = 16;
template <class V>
void store_non_temporal(V* to, V value) {
#if defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
#else
  *to = value;
#endif
}
#include "inner_loops.inl"
}  // namespace baseline

#if defined(__x86_64__) && defined(__GNUC__)
#define TORCH_DML_OPS_X86_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi2")
#endif
namespace avx2 {
constexpr const char* kLevel = "avx2";
constexpr bool kShufflesBytes = true;
constexpr bool kIsNeon = false;
constexpr int64_t kVectorBytes = 32;
template <class V>
void store_non_temporal(V* to, V value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
}
#include "inner_loops.inl"
}  // namespace avx2
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,prefer-vector-width=256")
#endif
// Its instructions, on vectors of half its width: stores of 64 bytes are slower where they cross cache lines, as in
// most rows they do, and no faster elsewhere. [case window, last axis halved, 4 MB]
namespace avx512 {
constexpr const char* kLevel = "avx512";
constexpr bool kShufflesBytes = true;
constexpr bool kIsNeon = false;
constexpr int64_t kVectorBytes = 32;
template <class V>
void store_non_temporal(V* to, V value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
}
#include "inner_loops.inl"
#include "inner_loops/gather.inl"
}  // namespace avx512
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

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
    {baseline::kInnerLoops, always, always},
#ifdef TORCH_DML_OPS_X86_LEVELS
    {avx2::kInnerLoops, has_avx2, always},
    {avx512::kInnerLoops, has_avx512, always},
    {avx512::kWithGathers, has_avx512, has_fast_gathers},
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
