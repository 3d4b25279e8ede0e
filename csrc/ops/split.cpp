// split and join: one tensor and its pieces along an axis, copied either way.
// The same rules are in torch_dml_ops/_operators.py (check.h says why); tests/refusals.py tests both against one table.
#include <algorithm>

#include "../kernels/affine_copy.h"
#include "check.h"
#include "execute.h"
#include "ops.h"

namespace torch_dml_ops {
namespace {

DimVector<int64_t> with_size(Ints sizes, int64_t axis, int64_t size) {
  DimVector<int64_t> result(sizes);
  result[std::size_t(axis)] = size;
  return result;
}

// Copies the pieces that lie one after another along an axis of `whole`, out of it or into it.
void copy_pieces(const Tensor& whole, Tensors pieces, int64_t axis, bool whole_is_source) {
  if (whole.numel() == 0) return;
  const int64_t item = whole.element_size();
  const auto sizes = whole.sizes(), whole_strides = whole.strides();
  AffineCopies plan{item, {}};
  plan.copies.reserve(pieces.size());
  const char* const op = whole_is_source ? "split" : "join";
  char* const first = data_of(op, Name{whole_is_source ? "input" : "out"}, whole, !whole_is_source);
  int64_t begin = 0;  // of the piece along the axis
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Tensor& piece = pieces[k];
    const auto piece_strides = piece.strides();
    const int64_t piece_size = piece.size(axis);
    char* data = data_of(op, Name{whole_is_source ? "out" : "inputs", int64_t(k)}, piece, whole_is_source);
    char* at = first + begin * whole_strides[std::size_t(axis)] * item;
    AffineCopy copy{whole_is_source ? data : at, whole_is_source ? at : data, {}};
    copy.dims.reserve(sizes.size());
    const auto dst_strides = whole_is_source ? piece_strides : whole_strides;
    const auto src_strides = whole_is_source ? whole_strides : piece_strides;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      copy.dims.push_back(plain_dim(int64_t(d) == axis ? piece_size : sizes[d], dst_strides[d], src_strides[d]));
    plan.copies.push_back(std::move(copy));
    begin += piece_size;
  }
  execute(std::move(plan), whole);
}

void check_split(const Tensor& input, Ints split_sizes, int64_t axis) {
  check_rank("split", "input", input);
  check_axis("split", axis, input.dim());
  require(!split_sizes.empty(), "split: split_sizes must have at least 1 entry, got none");
  const int64_t available = input.size(axis);
  for (std::size_t k = 0; k < split_sizes.size(); ++k)
    require(split_sizes[k] >= 1, "split: split_sizes[", k, "] must be at least 1, got ", split_sizes[k],
            "; leave empty pieces out");
  int64_t rest = available;  // subtracted one by one, because their sum may overflow
  for (const int64_t size : split_sizes) rest = size <= rest ? rest - size : -1;
  require(rest == 0, "split: split_sizes must sum to ", available, ", the size of input along axis ", axis, ", got ",
          Numbers{split_sizes, true});
}

// The result's sizes.
DimVector<int64_t> check_join(Tensors inputs, int64_t axis) {
  require(!inputs.empty(), "join: inputs must have at least 1 tensor, got none");
  const Tensor& first = inputs.front();
  check_rank("join", "inputs[0]", first);
  check_axis("join", axis, first.dim());
  const Ints required = first.sizes();
  int64_t sum = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Ints given = inputs[k].sizes();
    const Name name{"inputs", int64_t(k)};
    require(given.size() == required.size(), "join: ", name, " must have ", required.size(),
            " dimensions, as inputs[0] has, got ", given.size());
    check_same_kind("join", name, inputs[k], Name{"inputs[0]"}, first);
    for (std::size_t d = 0; d < required.size(); ++d)
      require(int64_t(d) == axis || given[d] == required[d], "join: ", name, " must have the sizes of inputs[0], ",
              Numbers{required}, ", except along axis ", axis, ", got ", Numbers{given},
              Difference{required, given, axis});
    const int64_t size = given[std::size_t(axis)];
    require(size >= 1, "join: ", name, " must have at least 1 element along axis ", axis,
            ", got 0; leave empty tensors out");
    require(!__builtin_add_overflow(sum, size, &sum), "join: inputs must sum to less than 2^63 along axis ", axis);
  }
  return with_size(required, axis, sum);
}

}  // namespace

TensorList split(const Tensor& input, Ints split_sizes, int64_t axis) {
  check_split(input, split_sizes, axis);
  TensorList results;
  results.reserve(split_sizes.size());
  for (const int64_t size : split_sizes)
    results.push_back(new_dense("split", with_size(input.sizes(), axis, size), {&input, 1}));
  copy_pieces(input, results, axis, true);
  return results;
}

void split_out(const Tensor& input, Ints split_sizes, int64_t axis, Tensors out) {
  check_split(input, split_sizes, axis);
  require(out.size() == split_sizes.size(), "split: out must have length ", split_sizes.size(),
          ", a tensor for each of split_sizes, got ", out.size());
  for (std::size_t k = 0; k < out.size(); ++k)
    check_out("split", Name{"out", int64_t(k)}, out[k], with_size(input.sizes(), axis, split_sizes[k]), Name{"input"},
              input);
  for (std::size_t k = 0; k < out.size(); ++k)
    check_disjoint("split", Name{"out", int64_t(k)}, out[k], Name{"input"}, input);
  check_disjoint_outs("split", out);
  for (const Tensor& each : out) each.mutable_data();  // which moves lazy clones, and `input` with its own storage
  copy_pieces(input, out, axis, true);
}

Tensor join(Tensors inputs, int64_t axis) {
  Tensor result = new_dense("join", check_join(inputs, axis), inputs);
  copy_pieces(result, inputs, axis, false);
  return result;
}

void join_out(Tensors inputs, int64_t axis, const Tensor& out) {
  const auto sizes = check_join(inputs, axis);
  check_out("join", Name{"out"}, out, sizes, Name{"inputs[0]"}, inputs.front());
  for (std::size_t k = 0; k < inputs.size(); ++k)
    check_disjoint("join", Name{"out"}, out, Name{"inputs", int64_t(k)}, inputs[k]);
  copy_pieces(out, inputs, axis, false);
}

}  // namespace torch_dml_ops
