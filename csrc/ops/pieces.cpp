// split and join: one tensor and its pieces along an axis, copied either way.
#include <algorithm>

#include "../kernels/affine_copy.h"
#include "check.h"
#include "execute.h"
#include "ops.h"

namespace torch_dml_ops {
namespace {

Sizes with_size(Ints sizes, int64_t axis, int64_t size) {
  Sizes result(sizes);
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

}  // namespace

Sizes PieceSizes::operator[](std::size_t k) const { return with_size(whole, axis, pieces[k]); }

PieceSizes split_sizes(const Tensor& input, Ints split_sizes, int64_t axis) {
  check_rank("split", "input", input);
  check_axis("split", axis, input.dim());
  require(!split_sizes.empty(), "split: split_sizes must have at least 1 entry, got none");
  const int64_t available = input.size(axis);
  for (std::size_t k = 0; k < split_sizes.size(); ++k)
    require(split_sizes[k] >= 1, "split: split_sizes[", k, "] must be at least 1, got ", split_sizes[k],
            split_sizes[k] == 0 ? "; leave empty pieces out" : "");
  int64_t rest = available;  // subtracted one by one, because their sum may overflow
  for (const int64_t size : split_sizes) rest = size <= rest ? rest - size : -1;
  require(rest == 0, "split: split_sizes must sum to ", available, ", the size of input along axis ", axis, ", got ",
          Numbers{split_sizes, true});
  return {input.sizes(), split_sizes, axis};
}

void copy_out_of_whole(const Tensor& input, Ints, int64_t axis, Tensors out) { copy_pieces(input, out, axis, true); }

Sizes join_sizes(Tensors inputs, int64_t axis) {
  require(!inputs.empty(), "join: inputs must have at least 1 tensor, got none");
  const Tensor& first = inputs.front();
  check_rank("join", "inputs[0]", first);
  check_axis("join", axis, first.dim());
  const Ints required = first.sizes();
  int64_t sum = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Ints given = inputs[k].sizes();
    const Name name{"inputs", int64_t(k)};
    require(given.size() == required.size(), "join: ", name, " must have as many dimensions as inputs[0], ",
            required.size(), ", got ", given.size());
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

void copy_into_whole(Tensors inputs, int64_t axis, const Tensor& out) { copy_pieces(out, inputs, axis, false); }

}  // namespace torch_dml_ops
