// How the operators have a plan executed. Each library implements these functions: _C for the CPU, _C_cuda for the GPU.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "../kernels/affine_copy.h"
#include "../kernels/reverse_copy.h"

namespace torch_dml_ops {

// Called on every new result before it is written.
void prepare(const torch::stable::Tensor& result);

// Runs the plan on the device of `on`; on a GPU, on the caller's current stream.
void execute(AffineCopies plan, const torch::stable::Tensor& on);
void execute(ReverseCopy plan, const torch::stable::Tensor& on);

}  // namespace torch_dml_ops
