// The inner loops with what every processor of the architecture has.
#include "simd_level.h"

namespace torch_dml_ops::cpu::baseline {
namespace {
constexpr const char* kLevel = "baseline";
constexpr int64_t kVectorBytes = 16;
#include "inner_loops.inl"
}  // namespace

const InnerLoops kLoops = kInnerLoops;

}  // namespace torch_dml_ops::cpu::baseline
