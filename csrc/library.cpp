// The map of the extension: every schema, and which function serves it. Compiled twice: into _C, with the schemas and
// the CPU's functions, and into _C_cuda, with the same functions over the GPU's engine.
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>

#include <cstdio>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>

#include "ops/boxed.h"
#include "ops/ops.h"

#ifdef TORCH_DML_OPS_CUDA_LIBRARY
#define DEVICE CUDA
#else
#define DEVICE CPU
#endif

// The test suite gives the operators another namespace to run the GPU's kernels on the host.
#ifndef TORCH_DML_OPS_NAMESPACE
#define TORCH_DML_OPS_NAMESPACE torch_dml_ops
#endif

// libstdc++ asks glibc by this name whether atomic operations can do without their locks. glibc has it since 2.32; with
// a name of their own, which always says no, the libraries load on older ones too.
extern "C" char __libc_single_threaded;
char __libc_single_threaded = 0;

namespace torch_dml_ops {
namespace {

// What tensors of some kinds meet, which have no strides. (dml.* say which argument it is.)
constexpr char kNoStrides[] =
    "torch_dml_ops: tensors must have strides; call to_dense() on a sparse or mkldnn tensor first, dequantize() on a "
    "quantized one, to_padded_tensor() on a nested one";
// What a CUDA tensor meets in a build without CUDA kernels. (The Python package has torch's own functions for it.)
constexpr char kNoCudaKernels[] =
    "torch_dml_ops: this build has no CUDA kernels; build it where nvcc is on the PATH (TORCH_DML_OPS_CUDA=1), or move "
    "the tensors to the CPU";

// What lazily conjugated and negated tensors meet in the overloads `out` where Python is not there to resolve them.
constexpr char kLazyViews[] =
    "torch_dml_ops: without the Python package, tensors must not be lazily conjugated or negated views where out is "
    "given; call resolve_conj() or resolve_neg() first";

using Function = void (*)(StableIValue*, uint64_t, uint64_t);

// A function that serves an operator, and what refuses the same arguments.
struct Functions {
  Function function, without_strides, without_cuda_kernels, with_lazy_views;
};

struct Operator {
  const char* schema;
  Functions functions;

  std::string name() const { return std::string(schema).substr(0, std::string(schema).find('(')); }
};

constexpr char kSlice1[] = "slice1", kSliceGrad[] = "slice_grad", kSplit[] = "split", kJoin[] = "join",
               kReverse[] = "reverse_subsequences";

template <const char* op, auto function>
constexpr Function kOrdinary = &boxed::Boxed<function>::template ordinary<op>;

template <const char* op, auto function>
constexpr Functions kBoxed = {kOrdinary<op, function>,
                              kOrdinary<op, &boxed::Refusal<function>::template refuse<kNoStrides>>,
                              kOrdinary<op, &boxed::Refusal<function>::template refuse<kNoCudaKernels>>,
                              kOrdinary<op, &boxed::Refusal<function>::template refuse<kLazyViews>>};

// The overloads `fast` and `fast_out` are what csrc/python/fast_calls.cpp calls: the same functions, with the numbers
// of a FastCall. It goes the ordinary way where they refuse, for whatever reason.
template <auto function>
constexpr Function kRefused = &boxed::Boxed<&boxed::Refusal<function>::template refuse<kNoStrides>>::fast;
template <auto function>
constexpr Functions kFast = {&boxed::Boxed<function>::fast, kRefused<function>, kRefused<function>, kRefused<function>};

template <auto function, std::size_t count>
constexpr Function kRefusedFew =
    &boxed::Boxed<&boxed::Refusal<function>::template refuse<kNoStrides>>::template fast_few<count>;
template <auto function, std::size_t count>
constexpr Functions kFastFew = {&boxed::Boxed<function>::template fast_few<count>, kRefusedFew<function, count>,
                                kRefusedFew<function, count>, kRefusedFew<function, count>};

constexpr Operator kOperators[] = {
    {"slice1(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
     "SymInt[]? output_sizes=None) -> Tensor",
     kBoxed<kSlice1, &slice1>},
    {"slice1.out(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
     "SymInt[]? output_sizes=None, *, Tensor(a!) out) -> ()",
     kBoxed<kSlice1, &slice1_out>},
    {"slice1.fast(Tensor input) -> Tensor", kFast<&slice1>},
    {"slice1.fast_out(Tensor input, *, Tensor(a!) out) -> ()", kFast<&slice1_out>},

    {"slice_grad(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
     "SymInt[] window_strides) -> Tensor",
     kBoxed<kSliceGrad, &slice_grad>},
    {"slice_grad.out(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
     "SymInt[] window_strides, *, Tensor(a!) out) -> ()",
     kBoxed<kSliceGrad, &slice_grad_out>},
    {"slice_grad.fast(Tensor grad_output) -> Tensor", kFast<&slice_grad>},
    {"slice_grad.fast_out(Tensor grad_output, *, Tensor(a!) out) -> ()", kFast<&slice_grad_out>},

    {"split(Tensor input, SymInt[] split_sizes, int axis) -> Tensor[]", kBoxed<kSplit, &split>},
    {"split.out(Tensor input, SymInt[] split_sizes, int axis, *, Tensor(a!)[] out) -> ()", kBoxed<kSplit, &split_out>},
    {"split.fast(Tensor input) -> Tensor[]", kFast<&split>},
    {"split.fast_2(Tensor input) -> (Tensor, Tensor)", kFastFew<&split, 2>},
    {"split.fast_3(Tensor input) -> (Tensor, Tensor, Tensor)", kFastFew<&split, 3>},
    {"split.fast_4(Tensor input) -> (Tensor, Tensor, Tensor, Tensor)", kFastFew<&split, 4>},
    {"split.fast_out(Tensor input, *, Tensor(a!)[] out) -> ()", kFast<&split_out>},

    {"join(Tensor[] inputs, int axis) -> Tensor", kBoxed<kJoin, &join>},
    {"join.out(Tensor[] inputs, int axis, *, Tensor(a!) out) -> ()", kBoxed<kJoin, &join_out>},
    {"join.fast(Tensor[] inputs) -> Tensor", kFast<&join>},
    {"join.fast_2(Tensor a, Tensor b) -> Tensor", kFastFew<&join, 2>},
    {"join.fast_3(Tensor a, Tensor b, Tensor c) -> Tensor", kFastFew<&join, 3>},
    {"join.fast_4(Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor", kFastFew<&join, 4>},
    {"join.fast_out(Tensor[] inputs, *, Tensor(a!) out) -> ()", kFast<&join_out>},

    {"reverse_subsequences(Tensor input, Tensor sequence_lengths, int axis) -> Tensor",
     kBoxed<kReverse, &reverse_subsequences>},
    {"reverse_subsequences.out(Tensor input, Tensor sequence_lengths, int axis, *, Tensor(a!) out) -> ()",
     kBoxed<kReverse, &reverse_subsequences_out>},
    {"reverse_subsequences.fast(Tensor input, Tensor sequence_lengths) -> Tensor", kFast<&reverse_subsequences>},
    {"reverse_subsequences.fast_out(Tensor input, Tensor sequence_lengths, *, Tensor(a!) out) -> ()",
     kFast<&reverse_subsequences_out>},
};

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
// What runs for tensors of these kinds, which have no strides. (The Python functions also say which argument it is.)
constexpr const char* kWithoutStrides[] = {"SparseCPU",     "SparseCUDA",      "SparseCsrCPU",
                                           "SparseCsrCUDA", "MkldnnCPU",       "QuantizedCPU",
                                           "QuantizedCUDA", "NestedTensorCPU", "NestedTensorCUDA"};

// Torch's own kernels for lazily conjugated and negated tensors expect of an operator that writes that it returns what
// it has written. Of one that returns nothing they take a reference off the stack that is not theirs. (In the place of
// the refusals for `out`, torch_dml_ops/_autograd.py puts kernels that resolve such tensors. There, numbers may be
// symbols, which the stable ABI does not pass on.)
constexpr const char* kKeysOfLazyViews[] = {"Conjugate", "Negative"};

// Where a transform, a mode or tracing is at work, the dispatcher calls what is at these keys. They refuse fast calls,
// which go the ordinary way then, so that nobody has to ask before each call.
constexpr const char* kKeysOfModes[] = {"FuncTorchDynamicLayerFrontMode", "Python", "Tracer"};
#endif

constexpr const char* kNamespace = C10_STRINGIZE(TORCH_DML_OPS_NAMESPACE);

// Registers the operators for as long as the library is loaded. It does not use torch's macros: where the process has
// loaded another copy of this library, torch refuses to define the namespace again, and the macros would go on with a
// handle that was never set.
class Registration {
 public:
  Registration() {
#ifndef TORCH_DML_OPS_CUDA_LIBRARY
    if (!define()) return;
#endif
    functions_.emplace(StableLibrary::Kind::IMPL, kNamespace, C10_STRINGIZE(DEVICE), __FILE__, __LINE__);
    for (const Operator& op : kOperators) functions_->impl(op.name().c_str(), op.functions.function);
#ifndef TORCH_DML_OPS_CUDA_LIBRARY
    for (const char* key : kWithoutStrides) {
      without_strides_.emplace_back(StableLibrary::Kind::IMPL, kNamespace, key, __FILE__, __LINE__);
      for (const Operator& op : kOperators)
        without_strides_.back().impl(op.name().c_str(), op.functions.without_strides);
    }
    for (const char* key : kKeysOfModes) {
      in_modes_.emplace_back(StableLibrary::Kind::IMPL, kNamespace, key, __FILE__, __LINE__);
      for (const Operator& op : kOperators)
        if (op.name().find(".fast") != std::string::npos)
          in_modes_.back().impl(op.name().c_str(), op.functions.without_strides);
    }
    refuse_lazy_views(".fast_out", fast_with_lazy_views_);
    refuse_lazy_views(".out", with_lazy_views_);
#endif
#ifdef TORCH_DML_OPS_CPU_ONLY
    refusals_.emplace(StableLibrary::Kind::IMPL, kNamespace, "CUDA", __FILE__, __LINE__);
    for (const Operator& op : kOperators) refusals_->impl(op.name().c_str(), op.functions.without_cuda_kernels);
#endif
  }
  ~Registration() {
    if (definitions_) aoti_torch_delete_library_object(definitions_);
  }

  void leave_to_python() {
    with_lazy_views_.clear();
    refusals_.reset();
  }

 private:
  using StableLibrary = torch::stable::detail::StableLibrary;

  bool define() {
    if (aoti_torch_library_init_def(kNamespace, __FILE__, __LINE__, &definitions_) != TORCH_SUCCESS) {
      Dl_info self = {};
      dladdr(&kNamespace, &self);
      std::fprintf(stderr,
                   "torch_dml_ops: %s registers nothing, for this process has the operators from another file\n",
                   self.dli_fname);
      return false;
    }
    for (const Operator& op : kOperators) TORCH_ERROR_CODE_CHECK(aoti_torch_library_def(definitions_, op.schema));
    return true;
  }

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
  static void refuse_lazy_views(const char* form, std::list<StableLibrary>& refusals) {
    for (const char* key : kKeysOfLazyViews) {
      refusals.emplace_back(StableLibrary::Kind::IMPL, kNamespace, key, __FILE__, __LINE__);
      for (const Operator& op : kOperators)
        if (op.name().ends_with(form)) refusals.back().impl(op.name().c_str(), op.functions.with_lazy_views);
    }
  }
#endif

  TorchLibraryHandle definitions_ = nullptr;
  std::optional<StableLibrary> functions_, refusals_;
  std::list<StableLibrary> without_strides_, in_modes_, fast_with_lazy_views_, with_lazy_views_;
};

Registration registration;

}  // namespace
}  // namespace torch_dml_ops

extern "C" __attribute__((visibility("default"))) torch_dml_ops::FastCall** torch_dml_ops_fast_call() {
  static thread_local torch_dml_ops::FastCall* next = nullptr;
  return &next;
}

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
// The Python package calls it before it registers its own kernels for what is refused without it.
extern "C" __attribute__((visibility("default"))) void torch_dml_ops_leave_to_python() {
  torch_dml_ops::registration.leave_to_python();
}
#endif
