#include "rows.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace torch_dml_ops::cpu {
namespace {

// Items may lie at any address: a view on a foreign buffer need not be aligned, and wide items are made of narrow ones.
using Item1 = uint8_t;
typedef uint16_t Item2 __attribute__((aligned(1), may_alias));
typedef uint32_t Item4 __attribute__((aligned(1), may_alias));
typedef uint64_t Item8 __attribute__((aligned(1), may_alias));
typedef uint64_t Item16 __attribute__((vector_size(16), aligned(1), may_alias));

namespace baseline {
#include "rows.inl"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TORCH_DML_OPS_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("avx2,bmi2")
namespace avx2 {
#include "rows.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,prefer-vector-width=512")
namespace avx512 {
#include "rows.inl"
}
#pragma GCC pop_options
#endif

template <std::size_t... i>
Rows table(const char* level, const CopyRow (&copy)[5], const ReversePanel (&panel)[5], std::index_sequence<i...>) {
  return {level, {copy[i]...}, {panel[i]...}};
}

Rows choose() {
  constexpr auto all = std::make_index_sequence<5>();
#ifdef TORCH_DML_OPS_X86_LEVELS
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return table("AVX-512", avx512::kCopy, avx512::kReversePanel, all);
  if (__builtin_cpu_supports("avx2")) return table("AVX2", avx2::kCopy, avx2::kReversePanel, all);
#endif
  return table("baseline", baseline::kCopy, baseline::kReversePanel, all);
}

}  // namespace

const Rows& rows() {
  static const Rows chosen = choose();
  return chosen;
}

}  // namespace torch_dml_ops::cpu
