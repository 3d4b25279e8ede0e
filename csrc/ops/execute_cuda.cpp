#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include "../kernels/cuda/engine.h"
#include "execute.h"

// In libtorch_cuda only. Weak, so that this library loads on a torch without CUDA too.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device, void** stream);

namespace torch_dml_ops {
namespace {

template <class Plan>
void execute_on_stream(Plan plan, const Tensor& on) {
  const int32_t device = on.device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  cuda::execute(std::move(plan), stream);
}

}  // namespace

void prepare(const Tensor&, int64_t) {}
void execute(AffineCopies plan, const Tensor& on) { execute_on_stream(std::move(plan), on); }
void execute(ReverseCopy plan, const Tensor& on) { execute_on_stream(std::move(plan), on); }

}  // namespace torch_dml_ops

// For `python -m torch_dml_ops`.
extern "C" __attribute__((visibility("default"))) const char torch_dml_ops_cuda_architectures[] =
    "CUDA architectures: " TORCH_DML_OPS_CUDA_ARCHITECTURES;
