#include "layout.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "check.h"
#include "execute.h"

namespace torch_dml_ops {
namespace {

using Order = DimVector<std::size_t>;  // dimensions, outermost in memory first

// The dimensions by decreasing stride. Of two with equal strides one has size 1, and that one counts as the inner one,
// as in torch.empty_like.
Order memory_order(const Tensor& t) {
  const auto sizes = t.sizes(), strides = t.strides();
  const auto before = [&](std::size_t a, std::size_t b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] > sizes[b];
  };
  Order order(sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d) {  // by insertion: std::stable_sort allocates memory
    std::size_t k = d;
    for (; k > 0 && before(d, order[k - 1]); --k) order[k] = order[k - 1];
    order[k] = d;
  }
  return order;
}

bool dense_in(const Order& order, const Tensor& t) {
  const auto sizes = t.sizes(), strides = t.strides();
  int64_t expected = 1;
  bool representable = true;  // in an empty tensor, the product of the other sizes may overflow
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t d = order[k];
    if (sizes[d] == 1) continue;
    if (!representable || strides[d] != expected) return false;
    representable = !__builtin_mul_overflow(expected, std::max<int64_t>(sizes[d], 1), &expected);
  }
  return true;
}

// The memory order of the first tensor in whose order all of them are dense, or the contiguous order if there is none.
// The tensors have equal sizes except in one dimension, and there none is 0.
Order shared_order(std::span<const Tensor> tensors) {
  // A dimension of size 1 can be anywhere in an order, so the tensor with the fewest of them fits the fewest orders.
  // Its dimensions larger than 1 include those of every other tensor. So if all are dense in some order, they are dense
  // in the order of that tensor.
  const auto ones = [](const Tensor& t) { return std::count(t.sizes().begin(), t.sizes().end(), 1); };
  const Tensor* widest = &tensors.front();
  if (tensors.size() > 1)
    widest = &*std::min_element(tensors.begin(), tensors.end(),
                                [&](const Tensor& a, const Tensor& b) { return ones(a) < ones(b); });
  Order order = memory_order(*widest);
  if (!std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return dense_in(order, t); })) {
    Order contiguous(order.size());
    std::iota(contiguous.begin(), contiguous.end(), 0);
    return contiguous;
  }
  for (const Tensor* t = tensors.data(); t != widest; ++t)
    if (Order own = memory_order(*t); dense_in(own, *widest)) return own;
  return order;
}

}  // namespace

Tensor new_dense(const char* op, std::span<const int64_t> sizes, std::span<const Tensor> order_of) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor& like = order_of.front();
  const Order order = shared_order(order_of);
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  const auto require_fits = [&](bool fits) {
    require(fits, op, ": a result of sizes ", Numbers{sizes},
            is_empty ? " would be empty, but its other sizes multiply to more than 2^63 - 1"
                     : " would have more than 2^63 - 1 bytes");
  };
  DimVector<int64_t> strides(sizes.size());
  __int128 stride = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    require_fits(stride <= kMost);
    strides[order[k]] = int64_t(stride);
    stride *= std::max<int64_t>(sizes[order[k]], 1);
  }
  require_fits(is_empty || stride <= kMost / like.element_size());
  const int64_t bytes = is_empty ? 0 : int64_t(stride) * like.element_size();
  AtenTensorHandle handle = nullptr;
  const AOTITorchError error = aoti_torch_empty_strided(int64_t(sizes.size()), sizes.data(), strides.data(),
                                                        like.dtype(), like.device_type(), like.device_index(), &handle);
  if (error != TORCH_SUCCESS) {
    require_fits(!is_empty);  // torch multiplies the sizes before the 0, and their product overflows
    require(false, op, ": out of memory on ", device_name(like), ", which cannot allocate a result of sizes ",
            Numbers{sizes}, ", ", bytes, " bytes");
  }
  Tensor result(handle);
  prepare(result, bytes);
  return result;
}

}  // namespace torch_dml_ops
