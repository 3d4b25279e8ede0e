// slice1 and slice_grad: a window of a tensor, copied out of it or back into zeros of its size.
#include "../kernels/affine_copy.h"
#include "check.h"
#include "execute.h"
#include "ops.h"

namespace torch_dml_ops {
namespace {

struct Window {
  Ints offsets, sizes, strides;

  // Where the walk along a dimension starts: with a negative stride, at the window's last index.
  int64_t start(std::size_t d) const { return offsets[d] + (strides[d] < 0 ? sizes[d] - 1 : 0); }

  // The most steps it can take. A dimension of size 0 has the window [0, 0) and none.
  int64_t most_steps(std::size_t d) const {
    const uint64_t step = strides[d] < 0 ? 0 - uint64_t(strides[d]) : uint64_t(strides[d]);
    return sizes[d] == 0 ? 0 : 1 + int64_t(uint64_t(sizes[d] - 1) / step);
  }
};

// The most steps that the walk can take in every dimension. `sized` names the argument whose sizes the window must keep
// within.
Sizes check_window(const char* op, const Window& w, std::span<const int64_t> sizes, const char* sized) {
  const auto check_length = [&](const char* name, std::size_t length) {
    require(length == sizes.size(), op, ": ", name, " must have length ", sizes.size(),
            ", an entry for each dimension of ", sized, ", got ", length);
  };
  check_length("window_offsets", w.offsets.size());
  check_length("window_sizes", w.sizes.size());
  check_length("window_strides", w.strides.size());
  Sizes most(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const int64_t least = sizes[d] == 0 ? 0 : 1;
    require(w.strides[d] != 0, op, ": window_strides[", d, "] must not be 0");
    require(w.offsets[d] >= 0, op, ": window_offsets[", d, "] must be at least 0, got ", w.offsets[d]);
    require(w.sizes[d] >= least, op, ": window_sizes[", d, "] must be at least ", least, ", got ", w.sizes[d]);
    require(w.offsets[d] <= sizes[d] - w.sizes[d], op, ": window_offsets[", d, "] + window_sizes[", d,
            "] must be at most ", sizes[d], ", the size of ", sized, " in dimension ", d, ", got ", w.offsets[d], " + ",
            w.sizes[d]);
    most[d] = w.most_steps(d);
  }
  return most;
}

}  // namespace

Sizes slice1_sizes(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides,
                   std::optional<Ints> output_sizes) {
  const Window w{window_offsets, window_sizes, window_strides};
  check_rank("slice1", "input", input);
  Sizes most = check_window("slice1", w, input.sizes(), "input");
  if (!output_sizes) return most;
  require(output_sizes->size() == most.size(), "slice1: output_sizes must have length ", most.size(),
          ", an entry for each dimension of input, got ", output_sizes->size());
  for (std::size_t d = 0; d < most.size(); ++d) {
    const int64_t size = (*output_sizes)[d];
    require(size >= std::min<int64_t>(most[d], 1) && size <= most[d], "slice1: output_sizes[", d, "] must be from ",
            std::min<int64_t>(most[d], 1), " to ", most[d], ", got ", size);
  }
  return *output_sizes;
}

void copy_window(const Tensor& input, Ints window_offsets, Ints window_sizes, Ints window_strides, std::optional<Ints>,
                 const Tensor& out) {
  if (out.numel() == 0) return;
  const Window w{window_offsets, window_sizes, window_strides};
  const int64_t item = input.element_size();
  const auto sizes = out.sizes(), dst_strides = out.strides(), src_strides = input.strides();
  AffineCopy copy{data_of("slice1", Name{"out"}, out, true), data_of("slice1", Name{"input"}, input, false), {}};
  copy.dims.reserve(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    copy.src += w.start(d) * src_strides[d] * item;
    copy.dims.push_back(plain_dim(sizes[d], dst_strides[d], sizes[d] == 1 ? 0 : src_strides[d] * w.strides[d]));
  }
  AffineCopies plan{item, {}};
  plan.copies.push_back(std::move(copy));  // an initializer list would copy it
  execute(std::move(plan), out);
}

Ints slice_grad_sizes(const Tensor& grad_output, Ints input_sizes, Ints window_offsets, Ints window_sizes,
                      Ints window_strides) {
  const Window w{window_offsets, window_sizes, window_strides};
  check_rank("slice_grad", "grad_output", grad_output);
  require(int64_t(input_sizes.size()) == grad_output.dim(), "slice_grad: input_sizes must have length ",
          grad_output.dim(), ", an entry for each dimension of grad_output, got ", input_sizes.size());
  for (std::size_t d = 0; d < input_sizes.size(); ++d)
    require(input_sizes[d] >= 0, "slice_grad: input_sizes[", d, "] must be at least 0, got ", input_sizes[d]);
  const Sizes most = check_window("slice_grad", w, input_sizes, "input_sizes");
  for (std::size_t d = 0; d < most.size(); ++d) {
    const int64_t size = grad_output.size(int64_t(d)), least = std::min<int64_t>(most[d], 1);
    require(size >= least && size <= most[d], "slice_grad: grad_output must have from ", least, " to ", most[d],
            " elements in dimension ", d, ", got ", size);
  }
  return input_sizes;
}

void copy_into_zeros(const Tensor& grad_output, Ints, Ints window_offsets, Ints window_sizes, Ints window_strides,
                     const Tensor& out) {
  if (out.numel() == 0) return;
  const Window w{window_offsets, window_sizes, window_strides};
  const int64_t item = out.element_size();
  const auto sizes = out.sizes(), dst_strides = out.strides();
  const auto counts = grad_output.sizes(), src_strides = grad_output.strides();
  AffineCopy copy{data_of("slice_grad", Name{"out"}, out, true),
                  data_of("slice_grad", Name{"grad_output"}, grad_output, false),
                  {}};
  copy.dims.reserve(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const int64_t count = counts[d], stride = count == 1 ? 0 : src_strides[d];
    CopyDim dim{sizes[d], dst_strides[d], stride, w.start(d), 1, count};
    if (count > 1 && w.strides[d] > 0) dim.step = w.strides[d];
    if (count > 1 && w.strides[d] < 0) {  // the same indices in ascending order, with the source read backwards
      dim.step = -w.strides[d];
      dim.begin -= (count - 1) * dim.step;
      dim.src_stride = -stride;
      copy.src += (count - 1) * stride * item;
    }
    copy.dims.push_back(dim);
  }
  AffineCopies plan{item, {}};
  plan.copies.push_back(std::move(copy));  // an initializer list would copy it
  execute(std::move(plan), out);
}

}  // namespace torch_dml_ops
