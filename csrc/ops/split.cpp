// split and join: one tensor and its pieces along an axis, copied either way.
// The same rules stand in torch_dml_ops/_checks.py (check.h says why); tests/refusals.py holds both to one table.
#include <algorithm>

#include "../kernels/affine_copy.h"
#include "check.h"
#include "execute.h"
#include "ops.h"

namespace torch_dml_ops {
namespace {

Ints with_size(std::span<const int64_t> sizes, int64_t axis, int64_t size) {
  Ints result(sizes.begin(), sizes.end());
  result[std::size_t(axis)] = size;
  return result;
}

// For the side of a copy that is only read the pointer is not used to write. (Asking for one that may be written to
// would end what a lazy clone shares with its origin; not asking, where it is written to, would write into the origin.)
char* data_of(const Tensor& t, bool written) {
  return static_cast<char*>(written ? t.mutable_data_ptr() : const_cast<void*>(t.const_data_ptr()));
}

// Moves between `whole` and the pieces that follow one another along its axis.
void copy_pieces(const Tensor& whole, std::span<const Tensor> pieces, int64_t axis, bool whole_is_source) {
  if (whole.numel() == 0) return;
  const int64_t item = int64_t(whole.element_size());
  const auto sizes = sizes_of(whole), whole_strides = strides_of(whole);
  AffineCopies plan{item, {}};
  char* at = data_of(whole, !whole_is_source);
  for (const Tensor& piece : pieces) {
    const auto piece_strides = strides_of(piece);
    const int64_t piece_size = piece.size(axis);
    char* data = data_of(piece, whole_is_source);
    AffineCopy copy{whole_is_source ? data : at, whole_is_source ? at : data, {}};
    const auto dst_strides = whole_is_source ? piece_strides : whole_strides;
    const auto src_strides = whole_is_source ? whole_strides : piece_strides;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      copy.dims.push_back(plain_dim(int64_t(d) == axis ? piece_size : sizes[d], dst_strides[d], src_strides[d]));
    plan.copies.push_back(std::move(copy));
    at += piece_size * whole_strides[std::size_t(axis)] * item;
  }
  execute(std::move(plan), whole);
}

void check_split(const Tensor& input, const Ints& split_sizes, int64_t axis) {
  check_rank("split", "input", input);
  check_axis("split", axis, input.dim());
  require(!split_sizes.empty(), "split: split_sizes must have at least 1 entry, got none");
  const int64_t available = input.size(axis);
  for (std::size_t k = 0; k < split_sizes.size(); ++k)
    require(split_sizes[k] >= 1, "split: split_sizes[", k, "] must be at least 1, got ", split_sizes[k]);
  int64_t rest = available;  // not a sum: of numbers that all fit, it may not
  for (const int64_t size : split_sizes) rest = size <= rest ? rest - size : -1;
  require(rest == 0, "split: split_sizes must sum to ", available, ", the size of input along axis ", axis, ", got ",
          Numbers{split_sizes, true});
}

// The result's sizes.
Ints check_join(const Tensors& inputs, int64_t axis) {
  require(!inputs.empty(), "join: inputs must have at least 1 tensor, got none");
  const Tensor& first = inputs.front();
  check_rank("join", "inputs[0]", first);
  check_axis("join", axis, first.dim());
  int64_t sum = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& piece = inputs[k];
    const Name name{"inputs", int64_t(k)};
    require(piece.dim() == first.dim(), "join: ", name, " must have ", first.dim(),
            " dimensions, as inputs[0] has, got ", piece.dim());
    check_same_kind("join", name, piece, Name{"inputs[0]"}, first);
    for (int64_t d = 0; d < first.dim(); ++d)
      require(d == axis || piece.size(d) == first.size(d), "join: ", name, " must have the sizes of inputs[0], ",
              Numbers{sizes_of(first)}, ", except along axis ", axis, ", got ", Numbers{sizes_of(piece)},
              Difference{sizes_of(first), sizes_of(piece), axis});
    require(piece.size(axis) >= 1, "join: ", name, " must have at least 1 element along axis ", axis, ", got 0");
    require(!__builtin_add_overflow(sum, piece.size(axis), &sum), "join: inputs must sum to less than 2^63 along axis ",
            axis);
  }
  return with_size(sizes_of(first), axis, sum);
}

}  // namespace

Tensors split(const Tensor& input, Ints split_sizes, int64_t axis) {
  check_split(input, split_sizes, axis);
  Tensors results;
  for (const int64_t size : split_sizes)
    results.push_back(new_dense("split", with_size(sizes_of(input), axis, size), {&input, 1}));
  copy_pieces(input, results, axis, true);
  return results;
}

void split_out(const Tensor& input, Ints split_sizes, int64_t axis, Tensors out) {
  check_split(input, split_sizes, axis);
  require(out.size() == split_sizes.size(), "split: out must have length ", split_sizes.size(),
          ", a tensor for each of split_sizes, got ", out.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    check_out("split", Name{"out", int64_t(k)}, out[k], with_size(sizes_of(input), axis, split_sizes[k]), Name{"input"},
              input);
    check_disjoint("split", Name{"out", int64_t(k)}, out[k], {"input"}, input);
  }
  check_disjoint_outs("split", out);
  copy_pieces(input, out, axis, true);
}

Tensor join(Tensors inputs, int64_t axis) {
  const Tensor result = new_dense("join", check_join(inputs, axis), inputs);
  copy_pieces(result, inputs, axis, false);
  return result;
}

void join_out(Tensors inputs, int64_t axis, const Tensor& out) {
  check_out("join", Name{"out"}, out, check_join(inputs, axis), Name{"inputs[0]"}, inputs.front());
  for (std::size_t k = 0; k < inputs.size(); ++k)
    check_disjoint("join", Name{"out"}, out, Name{"inputs", int64_t(k)}, inputs[k]);
  copy_pieces(out, inputs, axis, false);
}

}  // namespace torch_dml_ops
