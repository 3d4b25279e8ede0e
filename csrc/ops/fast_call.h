// How csrc/python/fast_calls.cpp hands numbers to an operator: past the dispatcher, which takes microseconds to carry a
// few lists, while the tensors go through it as ever.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_dml_ops {

// The numbers of a call under way, and whether the operator refused them; the caller then asks the operator in the
// ordinary way, which says why.
struct FastCall {
  static constexpr int64_t kMostNumbers = 64;  // of all lists together: 4 lists of 8 dimensions, and as many again
  static constexpr int kMostLists = 4;

  int64_t numbers[kMostNumbers];
  int64_t begin[kMostLists + 1];  // of each list in `numbers`
  int lists = 0;
  int64_t axis = 0;
  bool refused = false;

  std::span<const int64_t> list(int k) const { return {numbers + begin[k], std::size_t(begin[k + 1] - begin[k])}; }
};

}  // namespace torch_dml_ops

// The call that this thread makes next, null where it makes none. Each library has its own, as each has its operators.
extern "C" torch_dml_ops::FastCall** torch_dml_ops_fast_call();
