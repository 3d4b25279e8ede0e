// What the SIMD levels have in common. Each has a file of its own, inner_loops_<level>.cpp, which includes the inner
// loops between pragmas with the level's target.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __GNUC__
#define TORCH_DML_OPS_X86_LEVELS
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "engine.h"
#include "inner_loops.h"

namespace torch_dml_ops::cpu {

#ifdef __aarch64__
constexpr bool kIsNeon = true;
#else
constexpr bool kIsNeon = false;
#endif

using Item1 = uint8_t;
using Item2 = uint16_t;
using Item4 = uint32_t;
using Item8 = uint64_t;
typedef uint64_t Item16 __attribute__((vector_size(16)));

namespace baseline {
extern const InnerLoops kLoops;
}
namespace avx2 {
extern const InnerLoops kLoops;
}
namespace avx512 {
extern const InnerLoops kLoops, kLoopsWithGathers;
}

}  // namespace torch_dml_ops::cpu
