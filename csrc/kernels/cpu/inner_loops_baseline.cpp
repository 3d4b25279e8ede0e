// The inner loops with what every processor of the architecture has.
#include "simd_level.h"

namespace torch_dml_ops::cpu::baseline {
namespace {
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
}  // namespace

const InnerLoops kLoops = kInnerLoops;

}  // namespace torch_dml_ops::cpu::baseline
