// The CUDA engine: queues plans on a stream of the current device. Takes no memory and waits for nothing.
#pragma once

#include "../affine_copy.h"
#include "../reverse_copy.h"

namespace torch_dml_ops::cuda {

// A cudaStream_t, so that who calls the engine needs no CUDA header.
using Stream = void*;

// Pointers in the plans are the device's. Both write every element of the destinations once.
void execute(AffineCopies plan, Stream stream);
void execute(ReverseCopy plan, Stream stream);

}  // namespace torch_dml_ops::cuda
