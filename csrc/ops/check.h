// What the fronts share: one-sentence errors, memory layouts, overlap checks.
//
// The rules and sentences of csrc/ops stand a second time in torch_dml_ops/_checks.py, and the layouts in _layout.py:
// those serve tensors without data, whose sizes may be symbols (SymInts), and these have to work without Python.
// tests/refusals.py is the table of sentences that both are tested against: whoever changes one changes all three.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace torch_dml_ops {

using torch::stable::Tensor;

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
  const char* argument;
  int64_t index = -1;

  friend std::ostream& operator<<(std::ostream& to, const Name& name) {
    to << name.argument;
    return name.index < 0 ? to : to << '[' << name.index << ']';
  }
};

inline std::span<const int64_t> sizes_of(const Tensor& t) { return {t.sizes().data(), t.sizes().size()}; }
inline std::span<const int64_t> strides_of(const Tensor& t) { return {t.strides().data(), t.strides().size()}; }

// "[2, 3]"; of a longer list the first few and how many there are: "[1, 1, …] (100000 in all)", and with `with_sum`
// "[1, 1, …] (100000 in all, sum 100000)", where none is negative.
struct Numbers {
  std::span<const int64_t> numbers;
  bool with_sum = false;
};
std::ostream& operator<<(std::ostream& to, const Numbers& list);

// After a list that is required and one that is given: where they differ, unless both are shown as a whole. At the
// index `except` they may.
struct Difference {
  std::span<const int64_t> required, given;
  int64_t except = -1;
};
std::ostream& operator<<(std::ostream& to, const Difference& lists);

// The argument has at least one dimension, and `axis` is one of them.
void check_rank(const char* op, const char* argument, const Tensor& t);
void check_axis(const char* op, int64_t axis, int64_t rank);

// A number of torch's own, which every dtype has.
int32_t dtype_of(const Tensor& t);

// "float32", as Python writes it.
std::string dtype_name(const Tensor& t);

// `t` has the device of `like`; `t` has its device and dtype.
void check_same_device(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like);
void check_same_kind(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like);

// A new uninitialised tensor of `like`'s dtype and device. It is dense; its dimensions lie in memory in the order of
// `like`'s where all of `order_of` are dense in one and the same order, else it is contiguous.
Tensor new_dense(const char* op, std::span<const int64_t> sizes, std::span<const Tensor> order_of);

// `out` may be written in place of a new result of these sizes: right shape, dtype and device, no element of it lying
// on another one, and none on an element of `input`.
void check_out(const char* op, Name name, const Tensor& out, std::span<const int64_t> sizes, Name like_name,
               const Tensor& like);
void check_disjoint(const char* op, Name out_name, const Tensor& out, Name other_name, const Tensor& other);

// No element of one lies on an element of another.
void check_disjoint_outs(const char* op, std::span<const Tensor> outs);

}  // namespace torch_dml_ops
