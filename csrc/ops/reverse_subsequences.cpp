// reverse_subsequences: copies a tensor with the first elements along an axis reversed, as many as each length says.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <sstream>

#include "../kernels/reverse_copy.h"
#include "check.h"
#include "execute.h"
#include "ops.h"

namespace torch_dml_ops {
namespace {

constexpr const char* kOp = "reverse_subsequences";

LengthType length_type(const Tensor& lengths, int64_t axis) {
  const int32_t dtype = lengths.dtype();
  if (dtype == aoti_torch_dtype_int32()) return LengthType::kInt32;
  if (dtype == aoti_torch_dtype_int64()) return LengthType::kInt64;
  if (dtype == aoti_torch_dtype_uint32()) return LengthType::kUInt32;
  if (dtype == aoti_torch_dtype_uint64()) return LengthType::kUInt64;
  const bool is_mask = dtype == aoti_torch_dtype_bool();
  const std::string method = is_mask ? "sum(" + std::to_string(axis) + ", keepdim=True)" : "long()";
  require(false, kOp, ": sequence_lengths must have dtype uint32, uint64, int32 or int64, got ", dtype_name(lengths),
          "; write sequence_lengths.", method);
  return {};
}

std::string way_out(std::span<const int64_t> given, std::span<const int64_t> expected) {
  if (given.size() == 1 && given[0] > 1 && expected.size() > 1)
    return "; reverse_sequence takes a length per batch item";
  const auto fits = [](int64_t n, int64_t required) { return n == 1 || n == required; };
  if (given.size() > expected.size() || !std::equal(given.rbegin(), given.rend(), expected.rbegin(), fits)) return "";
  std::ostringstream text;
  text << Numbers{expected};
  const std::string list = text.str();
  return list.back() == ']' ? "; write sequence_lengths.expand(" + list.substr(1, list.size() - 2) + ")" : "";
}

}  // namespace

Ints reverse_subsequences_sizes(const Tensor& input, const Tensor& lengths, int64_t axis) {
  check_rank(kOp, "input", input);
  check_axis(kOp, axis, input.dim());
  length_type(lengths, axis);
  check_same_device(kOp, Name{"sequence_lengths"}, lengths, Name{"input"}, input);
  Sizes expected(input.sizes());
  expected[std::size_t(axis)] = 1;
  const auto given = lengths.sizes();
  if (!std::equal(given.begin(), given.end(), expected.begin(), expected.end()))
    require(false, kOp, ": sequence_lengths must have sizes ", Numbers{expected}, ", those of input with 1 at axis ",
            axis, ", got ", Numbers{given}, Difference{expected, given}, way_out(given, expected));
  return input.sizes();
}

void copy_reversed(const Tensor& input, const Tensor& lengths, int64_t axis, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t item = input.element_size();
  char* const to = data_of(kOp, Name{"out"}, out, true);
  const char* const from = data_of(kOp, Name{"input"}, input, false);
  const char* const counts = data_of(kOp, Name{"sequence_lengths"}, lengths, false);
  const auto sizes = input.sizes(), src = input.strides(), dst = out.strides(), length = lengths.strides();
  if (sizes[std::size_t(axis)] == 1) {  // Nothing is reversed. The axis may have any strides, even such as overflow.
    AffineCopies plain{item, {{to, from, {}}}};
    for (std::size_t d = 0; d < sizes.size(); ++d) plain.copies[0].dims.push_back(plain_dim(sizes[d], dst[d], src[d]));
    return execute(std::move(plain), out);
  }
  ReverseCopy copy{item, to, from, counts, length_type(lengths, axis), {}};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool is_axis = int64_t(d) == axis;
    copy.dims.push_back({sizes[d], dst[d], src[d], is_axis ? 0 : length[d], is_axis});
  }
  execute(std::move(copy), out);
}

}  // namespace torch_dml_ops
