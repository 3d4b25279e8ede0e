// The inner loops for processors with AVX2.
#include "simd_level.h"

#ifdef TORCH_DML_OPS_X86_LEVELS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi2")
#endif
namespace torch_dml_ops::cpu::avx2 {
namespace {
constexpr const char* kLevel = "avx2";
constexpr int64_t kVectorBytes = 32;
#include "inner_loops.inl"
}  // namespace

const InnerLoops kLoops = kInnerLoops;

}  // namespace torch_dml_ops::cpu::avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
