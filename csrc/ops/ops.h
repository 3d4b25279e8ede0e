// The operators' own functions, a pair for each: what checks its arguments and gives the sizes of its result, or those
// of each result, and what copies into results that have them. Contracts: torch_dml_ops/ops.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "../kernels/small_vector.h"
#include "tensor.h"

namespace torch_dml_ops {

using Ints = std::span<const int64_t>;
using Sizes = DimVector<int64_t>;
using Tensors = std::span<const Tensor>;

Sizes slice1_sizes(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides,
                   std::optional<Ints> output_sizes);
void copy_window(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides, std::optional<Ints>,
                 const Tensor& out);

Ints slice_grad_sizes(const Tensor& grad_output, Ints input_sizes, Ints window_offsets, Ints window_sizes,
                      Ints window_strides);
void copy_into_zeros(const Tensor& grad_output, Ints, Ints window_offsets, Ints window_sizes, Ints window_strides,
                     const Tensor& out);

// The sizes of each piece of a tensor that is split.
struct PieceSizes {
  Ints whole, pieces;
  int64_t axis;

  std::size_t size() const { return pieces.size(); }
  Sizes operator[](std::size_t k) const;
};
PieceSizes split_sizes(const Tensor& input, Ints split_sizes, int64_t axis);
void copy_out_of_whole(const Tensor& input, Ints, int64_t axis, Tensors out);

Sizes join_sizes(Tensors inputs, int64_t axis);
void copy_into_whole(Tensors inputs, int64_t axis, const Tensor& out);

Ints reverse_subsequences_sizes(const Tensor& input, const Tensor& sequence_lengths, int64_t axis);
void copy_reversed(const Tensor& input, const Tensor& sequence_lengths, int64_t axis, const Tensor& out);

}  // namespace torch_dml_ops
