// The inner loops with AVX-512's instructions, on vectors of half its width: stores of 64 bytes are slower where they
// cross cache lines, as in most rows they do, and no faster elsewhere. [case window, last axis halved, 4 MB]
#include "simd_level.h"

#ifdef TORCH_DML_OPS_X86_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,prefer-vector-width=256")
#endif
namespace torch_dml_ops::cpu::avx512 {
namespace {
constexpr const char* kLevel = "avx512";
constexpr int64_t kVectorBytes = 32;
#include "inner_loops.inl"
#include "inner_loops/gather.inl"
}  // namespace

const InnerLoops kLoops = kInnerLoops, kLoopsWithGathers = kWithGathers;

}  // namespace torch_dml_ops::cpu::avx512
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
