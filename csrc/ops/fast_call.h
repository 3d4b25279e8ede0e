// How csrc/python/fast_calls.cpp passes numbers to an operator: outside the dispatcher, which takes microseconds to
// convert a few lists. The tensors still go through the dispatcher.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_dml_ops {

// The numbers of one call, and whether the operator refused it; the caller then makes the call in the ordinary way,
// whose error says why.
struct FastCall {
  static constexpr int64_t kMostNumbers = 1024;  // of all lists together: the sizes of so many pieces
  static constexpr int kMostLists = 4;

  int64_t numbers[kMostNumbers];
  int64_t begin[kMostLists + 1];  // of each list in `numbers`
  int lists = 0;
  int64_t axis = 0;
  bool refused = false;

  std::span<const int64_t> list(int k) const { return {numbers + begin[k], std::size_t(begin[k + 1] - begin[k])}; }
};

}  // namespace torch_dml_ops

// Where this thread leaves the FastCall for the operator that it calls next; null between calls. Each library has its
// own, as each has its own operators.
extern "C" torch_dml_ops::FastCall** torch_dml_ops_fast_call();
