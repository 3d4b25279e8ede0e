// The order of a tensor's dimensions in memory, which results take from their inputs.
#pragma once

#include <cstdint>
#include <span>

#include "tensor.h"

namespace torch_dml_ops {

// A new uninitialised tensor, dense, with the dtype and device of order_of[0]. Its dimensions, as many as each of
// `order_of` has, are in the memory order in which all of these are dense; if there is no such order, it is contiguous.
Tensor new_dense(const char* op, std::span<const int64_t> sizes, std::span<const Tensor> order_of);

}  // namespace torch_dml_ops
