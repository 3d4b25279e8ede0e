// Division in kernels by divisors that are known at launch.
#pragma once

#include <type_traits>

#include "device.h"

namespace torch_dml_ops::cuda {

// The upper half of the product of two N-bit numbers, which has 2N bits.
__device__ __forceinline__ uint32_t mul_hi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
__device__ __forceinline__ uint64_t mul_hi(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  return uint64_t((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

// Division by multiplication and shift (Granlund and Montgomery, 1994), in far fewer instructions than a GPU needs for
// a division. For N-bit numbers with 1 <= d < 2^(N-1) and 0 <= n < 2^(N-1):
//   n / d == (mul_hi(n, multiplier) + n) >> shift
template <class Offset>
struct FastDivmod {
  using Unsigned = std::make_unsigned_t<Offset>;
  Unsigned divisor, multiplier;
  uint32_t shift;

  FastDivmod() = default;
  explicit FastDivmod(int64_t d) : divisor(Unsigned(d)), multiplier(0), shift(0) {
    using Wide = std::conditional_t<sizeof(Offset) == 4, uint64_t, unsigned __int128>;
    constexpr int kBits = 8 * int(sizeof(Offset));
    shift = uint32_t(std::bit_width(uint64_t(d - 1)));
    multiplier = Unsigned((((Wide(1) << shift) - Wide(d)) << kBits) / Wide(d) + 1);
  }
  __device__ __forceinline__ Offset div(Offset n) const {
    return Offset((mul_hi(Unsigned(n), multiplier) + Unsigned(n)) >> shift);
  }
  struct Result {
    Offset quotient, remainder;
  };
  __device__ __forceinline__ Result divmod(Offset n) const {
    const Offset quotient = div(n);
    return {quotient, n - quotient * Offset(divisor)};
  }
};

}  // namespace torch_dml_ops::cuda
