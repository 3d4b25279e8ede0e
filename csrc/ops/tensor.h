// A tensor as the operators see it: a handle that it owns. (torch::stable::Tensor would allocate memory for each one,
// and ask torch for its sizes again and again.)
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "../kernels/small_vector.h"

namespace torch_dml_ops {

class Tensor {
 public:
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), sizes_(other.sizes_), strides_(other.strides_) {}
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  AtenTensorHandle get() const { return handle_; }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }

  int64_t dim() const { return int64_t(sizes().size()); }
  int64_t size(int64_t d) const { return sizes()[std::size_t(d)]; }
  // Both are asked for once: they do not change while an operator runs.
  std::span<const int64_t> sizes() const {
    if (sizes_.data() == nullptr)
      sizes_ = {ask<int64_t*>(aoti_torch_get_sizes), std::size_t(ask<int64_t>(aoti_torch_get_dim))};
    return sizes_;
  }
  std::span<const int64_t> strides() const {
    if (strides_.data() == nullptr) strides_ = {ask<int64_t*>(aoti_torch_get_strides), sizes().size()};
    return strides_;
  }
  int64_t numel() const { return ask<int64_t>(aoti_torch_get_numel); }
  int32_t dtype() const { return ask<int32_t>(aoti_torch_get_dtype); }  // torch's own number of it
  int64_t element_size() const { return int64_t(aoti_torch_dtype_element_size(dtype())); }
  int32_t device_type() const { return ask<int32_t>(aoti_torch_get_device_type); }
  int32_t device_index() const { return ask<int32_t>(aoti_torch_get_device_index); }
  int64_t storage_bytes() const { return ask<int64_t>(aoti_torch_get_storage_size); }
  int64_t storage_offset() const { return ask<int64_t>(aoti_torch_get_storage_offset); }  // in elements
  const void* const_data() const { return ask<const void*>(torch_get_const_data_ptr); }
  void* mutable_data() const { return ask<void*>(torch_get_mutable_data_ptr); }

 private:
  template <class T>
  T ask(AOTITorchError (*question)(AtenTensorHandle, T*)) const {
    T answer{};
    TORCH_ERROR_CODE_CHECK(question(handle_, &answer));
    return answer;
  }

  AtenTensorHandle handle_;
  mutable std::span<const int64_t> sizes_, strides_;
};

using TensorList = SmallVector<Tensor, 4>;

}  // namespace torch_dml_ops
