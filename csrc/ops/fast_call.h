// How csrc/python/fast_calls.cpp passes numbers to an operator: outside the dispatcher, which takes microseconds to
// convert a few lists. The tensors still go through the dispatcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_dml_ops {

// The numbers of one call, and whether the operator refused it; the caller then makes the call in the ordinary way,
// whose error says why. A number outside of lists is a list of one.
struct FastCall {
  static constexpr int64_t kMostNumbers = 1025;  // of all lists together: the sizes of 1024 pieces, and an axis
  static constexpr int kMostLists = 8;

  int64_t numbers[kMostNumbers];
  int64_t begin[kMostLists + 1];  // of each list in `numbers`
  int lists = 0;
  unsigned missing = 0;  // a bit for each list that is None
  bool refused = false;

  std::span<const int64_t> list(int k) const { return {numbers + begin[k], std::size_t(begin[k + 1] - begin[k])}; }
  bool has(int k) const { return (missing >> k & 1) == 0; }
};

// Of so many tensors, each is an argument or a result of its own, in the overloads fast_2 to fast_4. The dispatcher
// takes lists apart and makes new ones, which costs a tenth of a small call.
constexpr std::size_t kLeastFew = 2, kMostFew = 4;

}  // namespace torch_dml_ops

// Where this thread leaves the FastCall for the operator that it calls next; null between calls. Each library has its
// own, as each has its own operators.
extern "C" torch_dml_ops::FastCall** torch_dml_ops_fast_call();
