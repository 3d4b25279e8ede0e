// A short way from Python to the operators, for plain tensors.
//
// Each function here takes what the operator takes, and gives its result; or None, where anything but a plain call is
// at work (a subclass, a mode, a transform, tracing), numbers are not plain ints, or the operator refuses: then the
// caller goes the ordinary way, which converts the numbers, or says what is wrong with them. Where autograd is to
// record the call, it gives the arguments behind the first one as tuples, which nobody can change.
// torch_dml_ops/_fast.py has the Python side.
//
// The tensors go through the dispatcher to the overload `fast` of each operator, which takes its numbers from a
// FastCall. So conjugate views, functional tensors and all else that the dispatcher handles are handled, and the
// profiler sees it.
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <iterator>
#include <utility>

#include "../ops/fast_call.h"

// Of torch 2.14 on. Weak, and null where this torch lacks them.
extern "C" {
__attribute__((weak)) AOTITorchError torch_tensor_from_pyobject(void* object, AtenTensorHandle* result);
__attribute__((weak)) AOTITorchError torch_tensor_to_pyobject(AtenTensorHandle tensor, void* type, void** result);
}

namespace {

namespace stable = torch::stable::detail;
using torch_dml_ops::FastCall;

// Functions of the first argument and a tuple of the others: an operator's result with the call in its graph.
PyObject* recorders[5] = {};
PyObject* not_plain = nullptr;  // what they raise where the ordinary way is to be gone

// What set_up is given.
struct Torch {
  PyObject* tensor;              // torch.Tensor
  PyObject* parameter;           // torch.nn.Parameter
  PyObject* size;                // torch.Size
  PyObject* checks;              // functions that return something true where more than a plain call is at work
  PyObject* pre_dispatch_modes;  // a list, of None where there is no such mode
  PyObject* forward_ad;          // the dictionary of torch.autograd.forward_ad
  PyObject* registered;          // the set of all kernels that were registered from Python, by name
  PyObject* foreign;             // the names of kernels that would not be ours
  PyObject* is_excluded;         // whether this thread's calls pass by the kernels at a dispatch key
  PyObject* autograd_key;
  PyObject* is_wrapped;    // whether a tensor belongs to a transform, perhaps to one that has ended
  PyObject* to_capsule;    // of a tensor, to a capsule with its handle; to be deleted
  PyObject* from_capsule;  // of such a capsule, to a tensor
  PyObject* takes_over;    // whether from_capsule takes the handle over, as torch's name for it says
  PyObject* increment_version;
  PyObject* cpu_call;   // address of the CPU library's torch_dml_ops_fast_call
  PyObject* cuda_call;  // 0 where there are no CUDA kernels
} torch_;

FastCall** (*cpu_call)() = nullptr;
FastCall** (*cuda_call)() = nullptr;

// Attributes and methods that are asked for by name.
struct Names {
  PyObject *requires_grad, *is_inference, *is_conj, *is_neg, *current_level, *isdisjoint, *start, *stop, *step;
} names;

// An owned reference, or null after an error.
class Object {
 public:
  explicit Object(PyObject* object) : object_(object) {}
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object(const Object&) = delete;
  ~Object() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// After an unexpected failure: the ordinary way meets it again, and reports it.
PyObject* other_way() {
  PyErr_Clear();
  Py_RETURN_NONE;
}

bool is_true(PyObject* object) { return object == Py_True; }

bool is_plain(PyObject* object) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == torch_.tensor || type == torch_.parameter;
}

// A tuple whose entries are where tuples have them: a subclass may give others when it is iterated.
bool is_plain_tuple(PyObject* object) {
  return PyTuple_CheckExact(object) != 0 || reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_.size;
}

// Whether the operators' kernels are the package's own. Somebody else's, as torch.library.register_autocast registers
// them, are not those of the overloads `fast`. A registration shows in the number of all there are, unless as many
// ended since the last call; to look each time would cost what a hundredth of a call does.
bool kernels_are_ours() {
  static Py_ssize_t known = -1;
  static bool ours = false;
  const Py_ssize_t count = PySet_Size(torch_.registered);
  if (count != known) {
    const Object result(PyObject_CallMethodObjArgs(torch_.registered, names.isdisjoint, torch_.foreign, nullptr));
    ours = result && is_true(result.get());
    known = count;
  }
  return ours;
}

// Whether no mode, transform, tracing, forward mode or kernel of somebody else is at work.
bool nothing_else_at_work() {
  const Py_ssize_t count = PyTuple_Size(torch_.checks);
  for (Py_ssize_t k = 0; k < count; ++k) {
    const Object result(PyObject_CallNoArgs(PyTuple_GetItem(torch_.checks, k)));
    if (!result || PyObject_IsTrue(result.get()) != 0) return false;
  }
  const Py_ssize_t modes = PyList_Size(torch_.pre_dispatch_modes);
  for (Py_ssize_t k = 0; k < modes; ++k)
    if (PyList_GetItem(torch_.pre_dispatch_modes, k) != Py_None) return false;
  PyObject* level = PyDict_GetItemWithError(torch_.forward_ad, names.current_level);
  return level != nullptr && PyLong_AsLong(level) < 0 && kernels_are_ours();
}

// Whether a function of torch's says so, or fails.
bool says_true(PyObject* function, PyObject* argument) {
  const Object result(PyObject_CallFunctionObjArgs(function, argument, nullptr));
  return !result || is_true(result.get());
}

bool answers_true(PyObject* tensor, PyObject* method) {
  const Object result(PyObject_CallMethodObjArgs(tensor, method, nullptr));
  return !result || is_true(result.get());
}

bool requires_grad(PyObject* tensor) {
  const Object result(PyObject_GetAttr(tensor, names.requires_grad));
  return !result || is_true(result.get());
}

// Tensors on their way into the dispatcher. It takes over those that are sent; the rest are deleted.
class Handle {
 public:
  explicit Handle(PyObject* tensor) {
    if (torch_tensor_from_pyobject != nullptr) {
      if (torch_tensor_from_pyobject(tensor, &handle_) != TORCH_SUCCESS) handle_ = nullptr;
      return;
    }
    const Object capsule(PyObject_CallFunctionObjArgs(torch_.to_capsule, tensor, nullptr));
    if (capsule)
      handle_ = static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get())));
  }
  Handle(const Handle&) = delete;
  ~Handle() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  explicit operator bool() const { return handle_ != nullptr; }
  AtenTensorHandle get() const { return handle_; }
  StableIValue send() { return stable::from(std::exchange(handle_, nullptr)); }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// Where the library that has kernels for this tensor looks for the numbers; null for a tensor of another kind.
FastCall** slot_for(AtenTensorHandle tensor) {
  int32_t device = 0, layout = 0;
  if (aoti_torch_get_device_type(tensor, &device) != TORCH_SUCCESS ||
      aoti_torch_get_layout(tensor, &layout) != TORCH_SUCCESS || layout != aoti_torch_layout_strided())
    return nullptr;
  if (device == aoti_torch_device_type_cpu()) return cpu_call();
  if (device == aoti_torch_device_type_cuda() && cuda_call != nullptr) return cuda_call();
  return nullptr;
}

// False where the operator was not reached or refused. What was on the stack is gone then.
bool dispatch(const char* name, const char* overload, FastCall& call, FastCall** slot, StableIValue* stack) {
  PyThreadState* thread = PyEval_SaveThread();
  *slot = &call;
  const AOTITorchError error = aoti_torch_call_dispatcher(name, overload, stack);
  *slot = nullptr;
  PyEval_RestoreThread(thread);
  return error == TORCH_SUCCESS;
}

// Python's tensor for a handle, which it takes over.
PyObject* wrapped(AtenTensorHandle handle) {
  PyObject* result = nullptr;
  if (torch_tensor_to_pyobject != nullptr) {
    void* object = nullptr;
    torch_tensor_to_pyobject(handle, nullptr, &object);
    result = static_cast<PyObject*>(object);
  } else {
    const Object capsule(PyCapsule_New(handle, nullptr, nullptr));
    if (capsule) result = PyObject_CallFunctionObjArgs(torch_.from_capsule, capsule.get(), nullptr);
    if (is_true(torch_.takes_over)) return result;
  }
  aoti_torch_delete_tensor_object(handle);
  return result;
}

// The list of tensors that the dispatcher left, null after an error.
PyObject* wrapped_list(StableListHandle list) {
  std::size_t count = 0;
  torch_list_size(list, &count);
  Object result(PyList_New(Py_ssize_t(count)));
  for (std::size_t k = 0; k < count && result; ++k) {
    StableIValue item = 0;
    torch_list_get_item(list, k, &item);
    PyObject* tensor = wrapped(stable::to<AtenTensorHandle>(item));
    if (tensor == nullptr) return nullptr;
    PyList_SetItem(result.get(), Py_ssize_t(k), tensor);
  }
  return result.release();
}

// Reads lists of ints one after another; false for what is no list or tuple of plain ints, or too long.
bool read_list(PyObject* list, FastCall& call) {
  const bool is_list = PyList_CheckExact(list) != 0;
  if (!is_list && !is_plain_tuple(list)) return false;
  if (call.lists == 0) call.begin[0] = 0;
  const int64_t begin = call.begin[call.lists];
  const Py_ssize_t count = is_list ? PyList_Size(list) : PyTuple_Size(list);
  if (begin + count > FastCall::kMostNumbers) return false;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* item = is_list ? PyList_GetItem(list, k) : PyTuple_GetItem(list, k);
    if (PyLong_CheckExact(item) == 0) return false;
    int overflow = 0;
    call.numbers[begin + k] = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0) return false;
  }
  call.begin[++call.lists] = begin + count;
  return true;
}

bool read_axis(PyObject* axis, FastCall& call) {
  if (PyLong_CheckExact(axis) == 0) return false;
  int overflow = 0;
  call.axis = PyLong_AsLongLongAndOverflow(axis, &overflow);
  return overflow == 0;
}

// The arguments behind the first one, for the backward pass; lists become tuples.
PyObject* frozen(PyObject* const* arguments, Py_ssize_t count) {
  Object result(PyTuple_New(count));
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* argument = arguments[k];
    PyObject* kept = PyList_CheckExact(argument) != 0 ? PyList_AsTuple(argument) : Py_NewRef(argument);
    if (kept == nullptr) return nullptr;
    PyTuple_SetItem(result.get(), k, kept);
  }
  return result.release();
}

// The operators. `arguments` are those of the Python functions; those of the others are the lists behind the tensor,
// and `axis` where the last one is an axis.

struct Shape {
  const char* name;
  int number;          // in `recorders`
  int lists;           // of numbers, behind the first argument
  bool last_optional;  // the last list may be None
  bool has_axis;       // behind the lists
  bool has_lengths;    // a tensor behind the first argument
};

constexpr Shape kSlice1{"torch_dml_ops::slice1", 0, 4, true, false, false};
constexpr Shape kSliceGrad{"torch_dml_ops::slice_grad", 1, 4, false, false, false};
constexpr Shape kSplit{"torch_dml_ops::split", 2, 1, false, true, false};
constexpr Shape kJoin{"torch_dml_ops::join", 3, 0, false, true, false};
constexpr Shape kReverse{"torch_dml_ops::reverse_subsequences", 4, 0, false, true, true};

constexpr Py_ssize_t arguments_of(const Shape& s) { return 1 + s.has_lengths + s.lists + s.has_axis; }

bool read_numbers(const Shape& shape, PyObject* const* arguments, FastCall& call) {
  PyObject* const* next = arguments + 1 + shape.has_lengths;
  for (int k = 0; k < shape.lists; ++k, ++next) {
    if (shape.last_optional && k + 1 == shape.lists && *next == Py_None) continue;
    if (!read_list(*next, call)) return false;
  }
  return !shape.has_axis || read_axis(*next, call);
}

// A list or tuple of tensors, as `join` takes and `split` writes them.
class Tensors {
 public:
  explicit Tensors(PyObject* list)
      : list_(list), is_list_(PyList_CheckExact(list) != 0), right_(is_list_ || is_plain_tuple(list)) {}
  bool right() const { return right_; }
  Py_ssize_t size() const { return is_list_ ? PyList_Size(list_) : PyTuple_Size(list_); }
  PyObject* operator[](Py_ssize_t k) const { return is_list_ ? PyList_GetItem(list_, k) : PyTuple_GetItem(list_, k); }

 private:
  PyObject* list_;
  bool is_list_, right_;
};

// The linear argument, one tensor or several.
template <bool several>
struct Linear;

template <>
struct Linear<false> {
  explicit Linear(PyObject* argument) : tensor(argument) {}
  bool plain() const { return is_plain(tensor); }
  // The first tensor that requires grad, null where none does.
  PyObject* requiring_grad() const { return requires_grad(tensor) ? tensor : nullptr; }
  PyObject* tensor;
};

template <>
struct Linear<true> {
  explicit Linear(PyObject* argument) : tensors(argument) {}
  bool plain() const {
    if (!tensors.right() || tensors.size() == 0) return false;
    for (Py_ssize_t k = 0; k < tensors.size(); ++k)
      if (!is_plain(tensors[k])) return false;
    return true;
  }
  PyObject* requiring_grad() const {
    for (Py_ssize_t k = 0; k < tensors.size(); ++k)
      if (requires_grad(tensors[k])) return tensors[k];
    return nullptr;
  }
  Tensors tensors;
};

// Deletes a list that was not sent, and its tensors.
void delete_tensors(StableListHandle list) {
  std::size_t count = 0;
  torch_list_size(list, &count);
  for (std::size_t k = 0; k < count; ++k) {
    StableIValue item = 0;
    if (torch_list_get_item(list, k, &item) == TORCH_SUCCESS)
      aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(item));
  }
  torch_delete_list(list);
}

// Puts a list of tensors on the stack; the slot of the first one, null where something is wrong.
FastCall** send_list(const Tensors& tensors, StableIValue& to_stack) {
  StableListHandle list = nullptr;
  const Py_ssize_t count = tensors.size();
  if (torch_new_list_reserve_size(std::size_t(count), &list) != TORCH_SUCCESS) return nullptr;
  FastCall** slot = nullptr;
  for (Py_ssize_t k = 0; k < count; ++k) {
    Handle handle(tensors[k]);
    if (handle && k == 0) slot = slot_for(handle.get());
    if (!handle || slot == nullptr || torch_list_push_back(list, handle.send()) != TORCH_SUCCESS) {
      delete_tensors(list);
      return nullptr;
    }
  }
  to_stack = stable::from(list);
  return slot;
}

// The overloads of join that take so many tensors one by one, as a list costs the dispatcher more than they do.
constexpr const char* kJoinOverloads[] = {nullptr, nullptr, "fast_2", "fast_3", "fast_4"};

// The result of a join of a few tensors, one by one on the stack.
PyObject* join_of_few(const Tensors& tensors, FastCall& fast) {
  StableIValue stack[std::size(kJoinOverloads)] = {};
  FastCall** slot = nullptr;
  const Py_ssize_t count = tensors.size();
  Py_ssize_t sent = 0;
  for (; sent < count; ++sent) {
    Handle handle(tensors[sent]);
    if (!handle || (slot = slot_for(handle.get())) == nullptr) break;
    stack[sent] = handle.send();
  }
  if (sent < count) {
    while (sent-- > 0) aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[sent]));
    return other_way();
  }
  if (!dispatch("torch_dml_ops::join", kJoinOverloads[count], fast, slot, stack)) return other_way();
  if (fast.refused) {
    aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[0]));
    Py_RETURN_NONE;
  }
  return wrapped(stable::to<AtenTensorHandle>(stack[0]));
}

// The result of the overload `fast`.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* result_of(const Linear<takes_list>& linear, PyObject* const* arguments, FastCall& fast) {
  StableIValue stack[2] = {};
  FastCall** slot = nullptr;
  if constexpr (takes_list) {
    const Py_ssize_t count = linear.tensors.size();
    if (count < Py_ssize_t(std::size(kJoinOverloads)) && kJoinOverloads[count] != nullptr)
      return join_of_few(linear.tensors, fast);
    slot = send_list(linear.tensors, stack[0]);
    if (slot == nullptr) return other_way();
  } else {
    Handle handle(linear.tensor);
    if (!handle || (slot = slot_for(handle.get())) == nullptr) return other_way();
    if constexpr (shape.has_lengths) {
      Handle lengths(arguments[1]);
      if (!lengths) return other_way();
      stack[1] = lengths.send();
    }
    stack[0] = handle.send();
  }
  if (!dispatch(shape.name, "fast", fast, slot, stack)) return other_way();
  if constexpr (gives_list) {
    auto list = stable::to<StableListHandle>(stack[0]);
    PyObject* results = fast.refused ? other_way() : wrapped_list(list);
    torch_delete_list(list);
    return results;
  } else {
    if (fast.refused) {
      aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[0]));
      Py_RETURN_NONE;
    }
    return wrapped(stable::to<AtenTensorHandle>(stack[0]));
  }
}

// An `out` that is plain, has no derivative to lose, and may be written to.
bool writable(PyObject* out, bool grad_mode) {
  return is_plain(out) && !(grad_mode && requires_grad(out)) && !answers_true(out, names.is_inference) &&
         !answers_true(out, names.is_conj) && !answers_true(out, names.is_neg);
}

// Calls the overload `fast_out`, and gives `out`.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* written(const Linear<takes_list>& linear, PyObject* const* arguments, PyObject* given, FastCall& fast) {
  // A list is the caller's, who may change it while other threads run.
  const Object kept(PyList_CheckExact(given) != 0 ? PyList_AsTuple(given) : Py_NewRef(given));
  if (!kept) return other_way();
  const Linear<gives_list> out(kept.get());
  if (!out.plain()) return other_way();
  const bool grad_mode = aoti_torch_grad_mode_is_enabled();
  StableIValue stack[3] = {};
  int used = 0;
  FastCall** slot = nullptr;
  // Everything is checked first: the dispatcher owns what is pushed on its stack.
  if constexpr (gives_list) {
    for (Py_ssize_t k = 0; k < out.tensors.size(); ++k)
      if (!writable(out.tensors[k], grad_mode)) return other_way();
  } else {
    if (!writable(out.tensor, grad_mode)) return other_way();
  }
  if constexpr (takes_list) {
    slot = send_list(linear.tensors, stack[used]);
    if (slot == nullptr) return other_way();
    ++used;
  } else {
    Handle handle(linear.tensor);
    if (!handle || (slot = slot_for(handle.get())) == nullptr) return other_way();
    stack[used++] = handle.send();
    if constexpr (shape.has_lengths) {
      Handle lengths(arguments[1]);
      if (!lengths) {
        aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[0]));
        return other_way();
      }
      stack[used++] = lengths.send();
    }
  }
  const auto give_up = [&] {
    if constexpr (takes_list) {
      delete_tensors(stable::to<StableListHandle>(stack[0]));
    } else {
      for (int k = 0; k < used; ++k) aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[k]));
    }
    return other_way();
  };
  if constexpr (gives_list) {
    if (send_list(out.tensors, stack[used]) == nullptr) return give_up();
  } else {
    Handle handle(out.tensor);
    if (!handle || slot_for(handle.get()) == nullptr) return give_up();
    stack[used] = handle.send();
  }
  if (!dispatch(shape.name, "fast_out", fast, slot, stack) || fast.refused) return other_way();
  const Object tensors(gives_list ? Py_NewRef(kept.get()) : PyTuple_Pack(1, given));
  const Object done(PyObject_CallFunctionObjArgs(torch_.increment_version, tensors.get(), nullptr));
  return done ? Py_NewRef(given) : nullptr;
}

// The operator; its last argument is `out`, or None.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != arguments_of(shape) + 1) return other_way();
  PyObject* out = arguments[count - 1];
  const Linear<takes_list> linear(arguments[0]);
  if (!linear.plain() || (shape.has_lengths && !is_plain(arguments[1]))) return other_way();
  FastCall fast;
  if (!read_numbers(shape, arguments, fast) || !nothing_else_at_work()) return other_way();
  PyObject* requiring_grad = aoti_torch_grad_mode_is_enabled() ? linear.requiring_grad() : nullptr;
  if (requiring_grad != nullptr) {
    // Below autograd, as in __torch_dispatch__, there is nothing to record; nor of a transform that has ended.
    if (out != Py_None || recorders[shape.number] == nullptr || says_true(torch_.is_excluded, torch_.autograd_key) ||
        says_true(torch_.is_wrapped, requiring_grad))
      return other_way();
    const Object others(frozen(arguments + 1, count - 2));
    if (!others) return nullptr;
    PyObject* results = PyObject_CallFunctionObjArgs(recorders[shape.number], arguments[0], others.get(), nullptr);
    return results == nullptr && PyErr_ExceptionMatches(not_plain) != 0 ? other_way() : results;
  }
  return out == Py_None ? result_of<shape, takes_list, gives_list>(linear, arguments, fast)
                        : written<shape, takes_list, gives_list>(linear, arguments, out, fast);
}

// The same below the Autograd key, for a recorder: everything was looked at already.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* below(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != arguments_of(shape)) return other_way();
  const Linear<takes_list> linear(arguments[0]);
  FastCall fast;
  if (!linear.plain() || !read_numbers(shape, arguments, fast)) return other_way();
  return result_of<shape, takes_list, gives_list>(linear, arguments, fast);
}

// set_recorders(NotPlain, slice1, slice_grad, split, join, reverse_subsequences)
PyObject* set_recorders(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1 + Py_ssize_t(std::size(recorders)))
    return PyErr_Format(PyExc_TypeError, "set_recorders takes 6 arguments, got %zd", count);
  not_plain = Py_NewRef(arguments[0]);
  for (Py_ssize_t k = 1; k < count; ++k) recorders[k - 1] = Py_NewRef(arguments[k]);
  Py_RETURN_NONE;
}

// set_up(torch): an object with what Torch has, under the same names.
PyObject* set_up(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1) return PyErr_Format(PyExc_TypeError, "set_up takes 1 argument, got %zd", count);
  const std::pair<const char*, PyObject**> members[] = {{"tensor", &torch_.tensor},
                                                        {"parameter", &torch_.parameter},
                                                        {"size", &torch_.size},
                                                        {"checks", &torch_.checks},
                                                        {"pre_dispatch_modes", &torch_.pre_dispatch_modes},
                                                        {"forward_ad", &torch_.forward_ad},
                                                        {"registered", &torch_.registered},
                                                        {"foreign", &torch_.foreign},
                                                        {"is_excluded", &torch_.is_excluded},
                                                        {"autograd_key", &torch_.autograd_key},
                                                        {"is_wrapped", &torch_.is_wrapped},
                                                        {"to_capsule", &torch_.to_capsule},
                                                        {"from_capsule", &torch_.from_capsule},
                                                        {"takes_over", &torch_.takes_over},
                                                        {"increment_version", &torch_.increment_version},
                                                        {"cpu_call", &torch_.cpu_call},
                                                        {"cuda_call", &torch_.cuda_call}};
  for (const auto& [name, member] : members)
    if ((*member = PyObject_GetAttrString(arguments[0], name)) == nullptr) return nullptr;
  cpu_call = reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(torch_.cpu_call));
  cuda_call = reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(torch_.cuda_call));
  names = {PyUnicode_InternFromString("requires_grad"),
           PyUnicode_InternFromString("is_inference"),
           PyUnicode_InternFromString("is_conj"),
           PyUnicode_InternFromString("is_neg"),
           PyUnicode_InternFromString("_current_level"),
           PyUnicode_InternFromString("isdisjoint"),
           PyUnicode_InternFromString("start"),
           PyUnicode_InternFromString("stop"),
           PyUnicode_InternFromString("step")};
  Py_RETURN_NONE;
}

// A number of a window as a tuple has it.
bool put(PyObject* tuple, Py_ssize_t d, Py_ssize_t number) {
  PyObject* object = PyLong_FromSsize_t(number);
  return object != nullptr && PyTuple_SetItem(tuple, d, object) == 0;
}

// Whether a slice has ints and None alone. (PySlice_Unpack would ask a symbolic size for a number, which then is a
// constant of what is traced.)
bool is_plain_slice(PyObject* slice) {
  if (Py_TYPE(slice) != &PySlice_Type) return false;
  for (PyObject* name : {names.start, names.stop, names.step}) {
    const Object part(PyObject_GetAttr(slice, name));
    if (!part || (part.get() != Py_None && PyLong_CheckExact(part.get()) == 0)) return false;
  }
  return true;
}

// window(shape, index): what torch_dml_ops.window gives for sizes that are ints, and slices of ints or None that select
// something; None for all else.
PyObject* window(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain_tuple(arguments[0])) return other_way();
  const bool is_tuple = PyTuple_CheckExact(arguments[1]) != 0;
  const Py_ssize_t rank = PyTuple_Size(arguments[0]), entries = is_tuple ? PyTuple_Size(arguments[1]) : 1;
  Py_ssize_t whole = rank - entries, entry = 0, left = 0;  // whole dimensions at the end, or where an Ellipsis stands
  Object offsets(PyTuple_New(rank)), sizes(PyTuple_New(rank)), strides(PyTuple_New(rank));
  if (!offsets || !sizes || !strides || whole < -1) return other_way();
  bool ellipsis_met = false;
  for (Py_ssize_t d = 0; d < rank; ++d) {
    PyObject* at = left > 0 || entry >= entries ? nullptr
                   : is_tuple                   ? PyTuple_GetItem(arguments[1], entry)
                                                : arguments[1];
    if (at == Py_Ellipsis && !ellipsis_met) {
      ellipsis_met = true;
      ++entry;
      left = whole + 1;
      if (left == 0) at = entry < entries ? PyTuple_GetItem(arguments[1], entry) : nullptr;
    }
    PyObject* size_object = PyTuple_GetItem(arguments[0], d);
    if (PyLong_CheckExact(size_object) == 0) return other_way();
    const Py_ssize_t size = PyLong_AsSsize_t(size_object);
    if (size < 1) return other_way();
    Py_ssize_t start = 0, stop = size, step = 1;
    if (left > 0) {
      --left;
    } else if (at != nullptr) {
      if (!is_plain_slice(at) || PySlice_Unpack(at, &start, &stop, &step) != 0) return other_way();
      ++entry;
    }
    const Py_ssize_t steps = PySlice_AdjustIndices(size, &start, &stop, step);
    if (steps < 1) return other_way();
    const Py_ssize_t extent = (steps - 1) * (step < 0 ? -step : step) + 1;
    if (!put(offsets.get(), d, step < 0 ? start - extent + 1 : start) || !put(sizes.get(), d, extent) ||
        !put(strides.get(), d, step))
      return other_way();
  }
  if (entry < entries &&
      !(entry + 1 == entries && !ellipsis_met && is_tuple && PyTuple_GetItem(arguments[1], entry) == Py_Ellipsis))
    return other_way();
  return PyTuple_Pack(3, offsets.get(), sizes.get(), strides.get());
}

using Function = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Function function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

PyMethodDef methods[] = {method("set_up", set_up),
                         method("set_recorders", set_recorders),
                         method("slice1", call<kSlice1, false, false>),
                         method("slice_grad", call<kSliceGrad, false, false>),
                         method("split", call<kSplit, false, true>),
                         method("join", call<kJoin, true, false>),
                         method("reverse_subsequences", call<kReverse, false, false>),
                         method("slice1_below", below<kSlice1, false, false>),
                         method("slice_grad_below", below<kSliceGrad, false, false>),
                         method("split_below", below<kSplit, false, true>),
                         method("join_below", below<kJoin, true, false>),
                         method("reverse_subsequences_below", below<kReverse, false, false>),
                         method("window", window),
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef module{PyModuleDef_HEAD_INIT, "_fast_calls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__fast_calls() { return PyModule_Create(&module); }
