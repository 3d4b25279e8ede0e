// How the operators have a plan executed. Each library implements these functions: _C for the CPU, _C_cuda for the GPU.
#pragma once

#include "../kernels/affine_copy.h"
#include "../kernels/reverse_copy.h"
#include "tensor.h"

namespace torch_dml_ops {

// Called on every new result before it is written, with its size.
void prepare(const Tensor& result, int64_t bytes);

// Runs the plan on the device of `on`; on a GPU, on the caller's current stream.
void execute(AffineCopies plan, const Tensor& on);
void execute(ReverseCopy plan, const Tensor& on);

}  // namespace torch_dml_ops
