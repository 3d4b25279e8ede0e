// The operators' engine for the namespace torch_dml_ops_on_host: the CUDA engine, compiled for the host.
#include "../../csrc/ops/engine.h"

#include "../../csrc/kernels/cuda/device.h"

namespace torch_dml_ops {

void prepare(const torch::stable::Tensor&) {}
void run(AffineCopies plan, const torch::stable::Tensor&) { cuda::run(std::move(plan), nullptr); }
void run(ReverseCopy plan, const torch::stable::Tensor&) { cuda::run(std::move(plan), nullptr); }

}  // namespace torch_dml_ops

// What the kernels loaded and stored since the last call: loads, stores, bytes loaded, bytes stored.
extern "C" __attribute__((visibility("default"))) void cuda_on_host_take_accesses(int64_t* counts) {
  const cuda_on_host::Accesses& a = cuda_on_host::accesses;
  counts[0] = a.loads;
  counts[1] = a.stores;
  counts[2] = a.bytes_loaded;
  counts[3] = a.bytes_stored;
  cuda_on_host::accesses = {};
}
