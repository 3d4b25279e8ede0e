// The map of the extension: every schema, and which function serves it. Compiled twice: into _C, with the schemas and
// the CPU's functions, and into _C_cuda, with the same functions over the GPU's engine.
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>

#include <cstdio>
#include <list>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/boxed.h"
#include "ops/operator.h"

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

// What fast calls meet where they go the ordinary way instead.
constexpr char kNoFastCalls[] = "torch_dml_ops: fast calls are for tensors with strides, where no transform is at work";
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
  Function function, without_fast_calls, without_cuda_kernels, with_lazy_views;
};

struct Overload {
  std::string schema;
  Functions functions;

  std::string name() const { return schema.substr(0, schema.find('(')); }
};

template <Schema schema, auto function>
constexpr Function kOrdinary = &boxed::Boxed<function>::template ordinary<schema>;

template <Schema schema, auto function>
constexpr Functions kBoxed = {kOrdinary<schema, function>,
                              kOrdinary<schema, &boxed::Refusal<function>::template refuse<kNoFastCalls>>,
                              kOrdinary<schema, &boxed::Refusal<function>::template refuse<kNoCudaKernels>>,
                              kOrdinary<schema, &boxed::Refusal<function>::template refuse<kLazyViews>>};

template <auto function, std::size_t few>
constexpr Function kRefused =
    &boxed::Boxed<&boxed::Refusal<function>::template refuse<kNoFastCalls>>::template fast<few>;
template <auto function, std::size_t few = 0>
constexpr Functions kFast = {&boxed::Boxed<function>::template fast<few>, kRefused<function, few>,
                             kRefused<function, few>, kRefused<function, few>};

std::string listed(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += (all.empty() ? "" : ", ") + item;
  return all;
}

// An operator's schemas, which follow from that of the overload without a name.
class Schemas {
 public:
  explicit Schemas(const std::string& schema)
      : name_(schema.substr(0, schema.find('('))), result_(schema.substr(schema.rfind(')') + 5)) {
    arguments_ = schema.substr(name_.size() + 1, schema.rfind(')') - name_.size() - 1);
    std::istringstream arguments(arguments_);
    for (std::string argument; std::getline(arguments >> std::ws, argument, ',');)
      if (argument.starts_with("Tensor")) tensors_.push_back(argument);
  }

  std::string out() const { return of("out", arguments_ + out_, "()"); }
  std::string fast() const { return of("fast", listed(tensors_), result_); }
  std::string fast_out() const { return of("fast_out", listed(tensors_) + out_, "()"); }
  // With `count` tensors one by one in place of a list that is given or returned; none if both are lists or neither is.
  std::optional<std::string> few(std::size_t count) const {
    const bool takes_list = tensors_[0].starts_with("Tensor[]"), gives_list = result_ == "Tensor[]";
    if (takes_list == gives_list) return std::nullopt;
    std::vector<std::string> tensors = tensors_;
    const std::vector<std::string> results(count, "Tensor");
    if (takes_list) {
      tensors.erase(tensors.begin());
      for (std::size_t k = count; k > 0; --k) tensors.insert(tensors.begin(), "Tensor tensor_" + std::to_string(k));
    }
    return of("fast_" + std::to_string(count), listed(tensors), gives_list ? "(" + listed(results) + ")" : result_);
  }

 private:
  std::string of(const std::string& overload, const std::string& arguments, const std::string& result) const {
    return name_ + "." + overload + "(" + arguments + ") -> " + result;
  }

  std::string name_, arguments_, result_;
  std::vector<std::string> tensors_;
  std::string out_ = result_ == "Tensor[]" ? ", *, Tensor(a!)[] out" : ", *, Tensor(a!) out";
};

// Adds the overloads of an operator, of which `function` makes a new result and `function_out` writes into `out`.
// `fast` and its like, which csrc/python/fast_calls.cpp calls, are the same functions with the tensors alone and the
// numbers of a FastCall. It goes the ordinary way where they refuse, for whatever reason.
template <Schema schema, auto sizes, auto copy>
void add(std::vector<Overload>& all) {
  using Op = Operator<schema, sizes, copy>;
  const Schemas schemas(schema.text);
  all.push_back({schema.text, kBoxed<schema, &Op::fresh>});
  all.push_back({schemas.out(), kBoxed<schema, &Op::into>});
  all.push_back({schemas.fast(), kFast<&Op::fresh>});
  all.push_back({schemas.fast_out(), kFast<&Op::into>});
  const auto add_few = [&](std::size_t count, const Functions& functions) {
    if (const auto few = schemas.few(count)) all.push_back({*few, functions});
  };
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    (add_few(kLeastFew + k, kFast<&Op::fresh, kLeastFew + k>), ...);
  }(std::make_index_sequence<kMostFew - kLeastFew + 1>());
}

std::vector<Overload> all_overloads() {
  std::vector<Overload> all;
  add<"slice1(Tensor input, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
      "SymInt[]? output_sizes=None) -> Tensor",
      &slice1_sizes, &copy_window>(all);
  add<"slice_grad(Tensor grad_output, SymInt[] input_sizes, SymInt[] window_offsets, SymInt[] window_sizes, "
      "SymInt[] window_strides) -> Tensor",
      &slice_grad_sizes, &copy_into_zeros>(all);
  add<"split(Tensor input, SymInt[] split_sizes, int axis) -> Tensor[]", &split_sizes, &copy_out_of_whole>(all);
  add<"join(Tensor[] inputs, int axis) -> Tensor", &join_sizes, &copy_into_whole>(all);
  add<"reverse_subsequences(Tensor input, Tensor sequence_lengths, int axis) -> Tensor", &reverse_subsequences_sizes,
      &copy_reversed>(all);
  return all;
}

const std::vector<Overload>& overloads() {
  static const std::vector<Overload> all = all_overloads();
  return all;
}

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
// Torch's own kernels for lazily conjugated and negated tensors expect of an operator that writes that it returns what
// it has written. Of one that returns nothing they take a reference off the stack that is not theirs. (In the place of
// the refusals for `out`, torch_dml_ops/_torch/autograd.py puts kernels that resolve such tensors. There, numbers may
// be symbols, which the stable ABI does not pass on.)
constexpr const char* kKeysOfLazyViews[] = {"Conjugate", "Negative"};

// Where a transform, a mode or tracing is at work, the dispatcher calls what is at the first of these keys, and for
// tensors of which one is on a device without kernels, what is at the last, rather than that device's fallback, which
// may copy them to the CPU. They refuse fast calls, which go the ordinary way then, so that nobody has to ask before
// each call.
constexpr const char* kKeysWithoutFastCalls[] = {"FuncTorchDynamicLayerFrontMode", "Python", "Tracer",
                                                 "CompositeExplicitAutograd"};
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
    for (const Overload& op : overloads()) functions_->impl(op.name().c_str(), op.functions.function);
#ifndef TORCH_DML_OPS_CUDA_LIBRARY
    for (const char* key : kKeysWithoutFastCalls) {
      without_fast_calls_.emplace_back(StableLibrary::Kind::IMPL, kNamespace, key, __FILE__, __LINE__);
      for (const Overload& op : overloads())
        if (op.name().find(".fast") != std::string::npos)
          without_fast_calls_.back().impl(op.name().c_str(), op.functions.without_fast_calls);
    }
    refuse_lazy_views(".fast_out", fast_with_lazy_views_);
    refuse_lazy_views(".out", with_lazy_views_);
#endif
#ifdef TORCH_DML_OPS_CPU_ONLY
    refusals_.emplace(StableLibrary::Kind::IMPL, kNamespace, "CUDA", __FILE__, __LINE__);
    for (const Overload& op : overloads()) refusals_->impl(op.name().c_str(), op.functions.without_cuda_kernels);
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
    for (const Overload& op : overloads())
      TORCH_ERROR_CODE_CHECK(aoti_torch_library_def(definitions_, op.schema.c_str()));
    return true;
  }

#ifndef TORCH_DML_OPS_CUDA_LIBRARY
  static void refuse_lazy_views(const char* form, std::list<StableLibrary>& refusals) {
    for (const char* key : kKeysOfLazyViews) {
      refusals.emplace_back(StableLibrary::Kind::IMPL, kNamespace, key, __FILE__, __LINE__);
      for (const Overload& op : overloads())
        if (op.name().ends_with(form)) refusals.back().impl(op.name().c_str(), op.functions.with_lazy_views);
    }
  }
#endif

  TorchLibraryHandle definitions_ = nullptr;
  std::optional<StableLibrary> functions_, refusals_;
  std::list<StableLibrary> without_fast_calls_, fast_with_lazy_views_, with_lazy_views_;
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
