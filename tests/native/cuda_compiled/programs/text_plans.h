// Executes plans that are given as text.
//
// A plan is a line of numbers; addresses are bytes from the start of the destination's and the source's memory:
//
//     affine ITEM_SIZE COPIES                 and for each copy
//         DST SRC DIMS                        and for each dim: size dst_stride src_stride begin step count
//     reverse ITEM_SIZE LEAST MOST DIMS       lengths are between LEAST and MOST; and for each dim:
//                                             size dst_stride src_stride length_stride is_axis
#pragma once

#include <istream>
#include <random>
#include <string>

#include "launches.h"

namespace cuda_compiled {

struct Memories {
  char *dst, *src, *lengths;
};

inline int64_t number(std::istream& in) {
  int64_t n = 0;
  if (!(in >> n)) fail("a plan ends early");
  return n;
}

inline void execute_affine(std::istream& in, const Memories& memory) {
  using namespace torch_dml_ops;
  AffineCopies plan{number(in), std::vector<AffineCopy>(std::size_t(number(in)))};
  for (AffineCopy& copy : plan.copies) {
    copy.dst = memory.dst + number(in);
    copy.src = memory.src + number(in);
    copy.dims.resize(std::size_t(number(in)));
    for (CopyDim& d : copy.dims)
      for (int64_t* n : {&d.size, &d.dst_stride, &d.src_stride, &d.begin, &d.step, &d.count}) *n = number(in);
  }
  cuda::execute(std::move(plan), nullptr);
}

inline void execute_reverse(std::istream& in, const Memories& memory) {
  using namespace torch_dml_ops;
  ReverseCopy plan{number(in), memory.dst, memory.src, memory.lengths, LengthType::kInt64, {}};
  const int64_t least = number(in), most = number(in);
  plan.dims.resize(std::size_t(number(in)));
  int64_t count = 1;
  for (ReverseDim& d : plan.dims) {
    for (int64_t* n : {&d.size, &d.dst_stride, &d.src_stride, &d.length_stride}) *n = number(in);
    d.is_axis = number(in) != 0;
    count += (d.size - 1) * d.length_stride;
  }
  std::mt19937_64 bits;
  auto* lengths = reinterpret_cast<int64_t*>(memory.lengths);
  for (int64_t k = 0; k < count; ++k) lengths[k] = least + int64_t(bits() % u64(most - least + 1));
  cuda::execute(std::move(plan), nullptr);
}

// `kind` is the line's first word.
inline void execute_plan(const std::string& kind, std::istream& in, const Memories& memory) {
  (kind == "affine" ? execute_affine : execute_reverse)(in, memory);
}

}  // namespace cuda_compiled
