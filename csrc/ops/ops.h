// The operators' functions, one pair each: a new result, and a given one. Contracts: torch_dml_ops/ops.py.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace torch_dml_ops {

using Ints = std::vector<int64_t>;
using Tensors = std::vector<torch::stable::Tensor>;

torch::stable::Tensor slice1(const torch::stable::Tensor& input, Ints window_offsets, Ints window_sizes,
                             Ints window_strides, std::optional<Ints> output_sizes);
void slice1_out(const torch::stable::Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides,
                std::optional<Ints> output_sizes, const torch::stable::Tensor& out);

torch::stable::Tensor slice_grad(const torch::stable::Tensor& grad_output, Ints input_sizes, Ints window_offsets,
                                 Ints window_sizes, Ints window_strides);
void slice_grad_out(const torch::stable::Tensor& grad_output, Ints input_sizes, Ints window_offsets, Ints window_sizes,
                    Ints window_strides, const torch::stable::Tensor& out);

Tensors split(const torch::stable::Tensor& input, Ints split_sizes, int64_t axis);
void split_out(const torch::stable::Tensor& input, Ints split_sizes, int64_t axis, Tensors out);

torch::stable::Tensor join(Tensors inputs, int64_t axis);
void join_out(Tensors inputs, int64_t axis, const torch::stable::Tensor& out);

torch::stable::Tensor reverse_subsequences(const torch::stable::Tensor& input,
                                           const torch::stable::Tensor& sequence_lengths, int64_t axis);
void reverse_subsequences_out(const torch::stable::Tensor& input, const torch::stable::Tensor& sequence_lengths,
                              int64_t axis, const torch::stable::Tensor& out);

}  // namespace torch_dml_ops
