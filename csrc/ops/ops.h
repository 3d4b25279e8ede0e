// The operators' functions, one pair each: a new result, and a given one. Contracts: torch_dml_ops/ops.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tensor.h"

namespace torch_dml_ops {

using Ints = std::span<const int64_t>;
using Tensors = std::span<const Tensor>;

Tensor slice1(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides,
              std::optional<Ints> output_sizes);
void slice1_out(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides,
                std::optional<Ints> output_sizes, const Tensor& out);

Tensor slice_grad(const Tensor& grad_output, Ints input_sizes, Ints window_offsets, Ints window_sizes,
                  Ints window_strides);
void slice_grad_out(const Tensor& grad_output, Ints input_sizes, Ints window_offsets, Ints window_sizes,
                    Ints window_strides, const Tensor& out);

TensorList split(const Tensor& input, Ints split_sizes, int64_t axis);
void split_out(const Tensor& input, Ints split_sizes, int64_t axis, Tensors out);

Tensor join(Tensors inputs, int64_t axis);
void join_out(Tensors inputs, int64_t axis, const Tensor& out);

Tensor reverse_subsequences(const Tensor& input, const Tensor& sequence_lengths, int64_t axis);
void reverse_subsequences_out(const Tensor& input, const Tensor& sequence_lengths, int64_t axis, const Tensor& out);

}  // namespace torch_dml_ops
