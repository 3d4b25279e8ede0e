#include "inner_loops.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <span>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TORCH_DML_OPS_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("avx2,bmi2")
namespace avx2 {
constexpr const char* kLevel = "AVX2";
constexpr int64_t kVectorBytes = 32;
template <class V>
void store_non_temporal(V* to, V value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
}
#include "inner_loops.inl"
}  // namespace avx2
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,prefer-vector-width=512")
namespace avx512 {
constexpr const char* kLevel = "AVX-512";
constexpr int64_t kVectorBytes = 64;
template <class V>
void store_non_temporal(V* to, V value) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
}
#include "inner_loops.inl"
}  // namespace avx512
#pragma GCC pop_options
#endif

InnerLoops choose() {
#ifdef TORCH_DML_OPS_X86_LEVELS
  const char* set = std::getenv("TORCH_DML_OPS_SIMD");
  const std::string_view most = set && *set ? set : "avx512";  // the highest level allowed
  if (most == "avx512" && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return avx512::kInnerLoops;
  if (most != "baseline" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return avx2::kInnerLoops;
#endif
  return baseline::kInnerLoops;
}

}  // namespace

void non_temporal_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

const InnerLoops& inner_loops() {
  static const InnerLoops chosen = choose();
  return chosen;
}

}  // namespace torch_dml_ops::cpu
