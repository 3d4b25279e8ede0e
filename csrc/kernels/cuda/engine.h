// The CUDA engine: queues plans on a stream of the current device. It allocates no memory and never synchronizes.
#pragma once

#include "../affine_copy.h"
#include "../reverse_copy.h"

namespace torch_dml_ops::cuda {

// A cudaStream_t, so that callers need no CUDA header.
using Stream = void*;

// Plans hold device pointers. Both functions write every element of the destinations once.
void execute(AffineCopies plan, Stream stream);
void execute(ReverseCopy plan, Stream stream);

}  // namespace torch_dml_ops::cuda
