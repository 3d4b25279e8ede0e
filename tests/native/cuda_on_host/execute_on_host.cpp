// The operators' engine for the namespace torch_dml_ops_on_host: the CUDA engine, compiled for the host.
#include "../../../csrc/ops/execute.h"

#include <cstring>

#include "../../../csrc/kernels/cuda/device.h"

namespace torch_dml_ops {

void prepare(const Tensor&, int64_t) {}
void execute(AffineCopies plan, const Tensor&) { cuda::execute(std::move(plan), nullptr); }
void execute(ReverseCopy plan, const Tensor&) { cuda::execute(std::move(plan), nullptr); }

}  // namespace torch_dml_ops

// What the kernels loaded and stored since the last call: the numbers of an Accesses in their order. From the first
// call on, all of them are counted.
extern "C" __attribute__((visibility("default"))) void cuda_on_host_take_accesses(int64_t* counts) {
  static_assert(sizeof(cuda_on_host::Accesses) == 22 * sizeof(int64_t));
  std::memcpy(counts, &cuda_on_host::accesses, sizeof(cuda_on_host::Accesses));
  cuda_on_host::accesses = {};
  cuda_on_host::recording = true;
}
