// What the operators share: one-sentence errors, and the checks that several of them make.
//
// The rules and sentences of csrc/ops are repeated in torch_dml_ops/_operators: definitions.py and checks.py, layouts
// in layout.py, shared memory in overlap.py. The Python ones are for tensors without data, whose sizes may be symbols
// (SymInts), for devices without kernels and for DTensors; the C++ ones have to work without Python. Both are tested
// against the same sentences, most of them in tests/lib/refusals.py: change a sentence in all three.
#pragma once

#include <cstdint>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tensor.h"

namespace torch_dml_ops {

// Throws what Python sees as a RuntimeError with this text alone. (STD_TORCH_CHECK would put the name, file and line of
// the function that failed before the sentence.)
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (condition) return;
  std::ostringstream text;
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

// An argument, or one of a list of them, as errors name it.
struct Name {
  std::string_view argument;
  int64_t index = -1;

  friend std::ostream& operator<<(std::ostream& to, const Name& name) {
    to << name.argument;
    return name.index < 0 ? to : to << '[' << name.index << ']';
  }
};

// Prints "[2, 3]", or of a longer list the first few numbers and the count: "[1, 1, …] (100000 in all)"; with
// `with_sum`, for numbers of which none is negative, "[1, 1, …] (100000 in all, sum 100000)".
struct Numbers {
  std::span<const int64_t> numbers;
  bool with_sum = false;
};
std::ostream& operator<<(std::ostream& to, const Numbers& list);

// Follows a required and a given list in a sentence: prints where they first differ, ", with 3 instead of 2 at index
// 20", unless both lists are shown in full. Index `except` is left out, as the lists may differ there.
struct Difference {
  std::span<const int64_t> required, given;
  int64_t except = -1;
};
std::ostream& operator<<(std::ostream& to, const Difference& lists);

// The address of the data of a tensor that has elements, all within its storage, to be read or written. The difference
// matters for lazy clones, which share their data until one of them is written to: for a tensor that is only read,
// ending the sharing by a copy would be a waste, and not ending it for one that is written would change the other
// tensors too.
char* data_of(const char* op, Name name, const Tensor& t, bool written);

// The argument has at least one dimension, and `axis` is one of them.
void check_rank(const char* op, const char* argument, const Tensor& t);
void check_axis(const char* op, int64_t axis, int64_t rank);

// "float32" and "cuda:0", as Python writes them.
std::string dtype_name(const Tensor& t);
std::string device_name(const Tensor& t);

// `t` has the device of `like`; in the second, its dtype too.
void check_same_device(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like);
void check_same_kind(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like);

// `out` has these sizes and the dtype and device of `like`, and no two of its elements share memory.
void check_out(const char* op, Name name, const Tensor& out, std::span<const int64_t> sizes, Name like_name,
               const Tensor& like);

// `out` shares no memory with `other`; no two of `outs` share memory. A lazy clone has the address of what it was
// cloned from until it is written to: one that may be refused for that gets its own memory here. So these checks are
// the last.
void check_disjoint(const char* op, Name out_name, const Tensor& out, Name other_name, const Tensor& other);
void check_disjoint_outs(const char* op, std::span<const Tensor> outs);

}  // namespace torch_dml_ops
