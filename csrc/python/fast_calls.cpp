// A short way from Python to the operators, for plain tensors.
//
// Each function here takes the operator's arguments and returns its result. It returns None if the call is not plain (a
// subclass, a mode, a transform or tracing is involved, or numbers are not plain ints) or if the operator refuses it.
// The caller then makes the call in the ordinary way, which converts the numbers or says what is wrong. If autograd has
// to record the call, an autograd.Function is applied whose forward and backward are here too. torch_dml_ops/_fast.py
// and _autograd.py are the Python side.
//
// The tensors go through the dispatcher to the overload `fast` of each operator, which takes its numbers from a
// FastCall. So whatever the dispatcher handles (conjugate views and functional tensors, for example) works as usual,
// and the profiler sees the call.
#undef Py_LIMITED_API  // torch's builds define the same in other letters
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <iterator>
#include <span>
#include <utility>

#include "../ops/fast_call.h"

// In torch 2.14 and later. Weak: null where this torch lacks them.
extern "C" {
__attribute__((weak)) AOTITorchError torch_tensor_from_pyobject(void* object, AtenTensorHandle* result);
__attribute__((weak)) AOTITorchError torch_tensor_to_pyobject(AtenTensorHandle tensor, void* type, void** result);
}

namespace {

namespace stable = torch::stable::detail;
using torch_dml_ops::FastCall;

// For each operator, what records a call that needs a derivative: a subclass of autograd.Function.
struct Recorder {
  PyObject* apply;  // its `apply`: of the tensor and a tuple of the other arguments, or of that tuple and the tensors
  PyObject* transposed;  // its `transposed`, for cotangents that are not plain
};
Recorder recorders[5] = {};
PyObject* not_plain = nullptr;  // what `forward` raises if the call has to be made in the ordinary way

// What set_up was called with.
struct Torch {
  PyObject* tensor;              // torch.Tensor
  PyObject* parameter;           // torch.nn.Parameter
  PyObject* size;                // torch.Size
  PyObject* checks;              // functions that return something true where more than a plain call is at work
  PyObject* count_modes;         // how many modes for torch functions are active
  PyObject* mode_at;             // gives one of them by its number
  PyObject* harmless_modes;      // the set of those types of them that do nothing to an operator
  PyObject* pre_dispatch_modes;  // a list, of None where there is no such mode
  PyObject* forward_ad;          // the dictionary of torch.autograd.forward_ad
  PyObject* registered;          // the set of all kernels that were registered from Python, by name
  PyObject* foreign;             // the names of kernels that would not be ours
  PyObject* is_excluded;         // whether this thread's calls pass by the kernels at a dispatch key
  PyObject* autograd_key;
  PyObject* is_wrapped;       // whether a tensor belongs to a transform, perhaps to one that has ended
  PyObject* to_capsule;       // makes a capsule with a new handle of a tensor; the handle has to be deleted
  PyObject* from_capsule;     // makes a tensor from such a capsule
  PyObject* takes_ownership;  // whether from_capsule takes ownership of the handle, as torch's name for it says
  PyObject* increment_version;
  PyObject* cpu_call;   // address of the CPU library's torch_dml_ops_fast_call
  PyObject* cuda_call;  // 0 where there are no CUDA kernels
} torch_;

FastCall** (*cpu_call)() = nullptr;
FastCall** (*cuda_call)() = nullptr;

// Names of attributes and methods, as Python strings.
struct Names {
  PyObject *requires_grad, *is_inference, *current_level, *isdisjoint, *start, *stop, *step, *shape, *recorded,
      *save_for_backward, *saved_tensors;
} names;

// An owned reference, or null after an error.
class Object {
 public:
  explicit Object(PyObject* object) : object_(object) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object(const Object&) = delete;
  ~Object() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Returns None without an error: the caller falls back to the ordinary way, which reports any error itself.
PyObject* fall_back() {
  PyErr_Clear();
  Py_RETURN_NONE;
}

// The same, but for an error that is not about the arguments, and that the ordinary way would not meet again.
PyObject* fall_back_unless_interrupted() { return PyErr_Occurred() != nullptr ? nullptr : fall_back(); }

bool is_true(PyObject* object) { return object == Py_True; }

bool is_plain(PyObject* object) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == torch_.tensor || type == torch_.parameter;
}

// A tuple that can be read by index. (A subclass may yield other entries when it is iterated.)
bool is_plain_tuple(PyObject* object) {
  return PyTuple_CheckExact(object) != 0 || reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_.size;
}

// Whether a mode for torch functions is active that may do something to an operator. (No Python code may run here: what
// a signal's handler raised in it would be taken for a reason to make the call in the ordinary way.)
bool modes_interfere() {
  const Object count(PyObject_CallNoArgs(torch_.count_modes));
  if (!count) return true;
  for (long k = PyLong_AsLong(count.get()); k > 0; --k) {
    const Object number(PyLong_FromLong(k - 1));
    const Object mode(number ? PyObject_CallFunctionObjArgs(torch_.mode_at, number.get(), nullptr) : nullptr);
    if (!mode || PySet_Contains(torch_.harmless_modes, reinterpret_cast<PyObject*>(Py_TYPE(mode.get()))) != 1)
      return true;
  }
  return false;
}

// Whether all kernels of the operators are the package's own. One that somebody else registers, for example by
// torch.library.register_autocast, does not exist for the overloads `fast`. A change shows in the number of
// kernels, unless as many were removed since the last call; comparing the sets each time would cost too much.
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

// Whether no mode, transform, tracing, forward-mode differentiation or kernel of somebody else is active.
bool nothing_else_at_work() {
  const Py_ssize_t count = PyTuple_Size(torch_.checks);
  for (Py_ssize_t k = 0; k < count; ++k) {
    const Object result(PyObject_CallNoArgs(PyTuple_GetItem(torch_.checks, k)));
    if (!result || PyObject_IsTrue(result.get()) != 0) return false;
  }
  if (modes_interfere()) return false;
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

// True after an error too, as only a signal's handler can raise one: a mode that passes runs Python code here.
bool requires_grad(PyObject* tensor) {
  const Object result(PyObject_GetAttr(tensor, names.requires_grad));
  return !result || is_true(result.get());
}

// A tensor's handle for the dispatcher, which takes ownership of handles that are sent to it; others are deleted.
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
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }
  StableIValue send() { return stable::from(release()); }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// Where the library with kernels for this tensor looks for its FastCall; null if no library has any.
FastCall** slot_for(AtenTensorHandle tensor) {
  int32_t device = 0, layout = 0;
  if (aoti_torch_get_device_type(tensor, &device) != TORCH_SUCCESS ||
      aoti_torch_get_layout(tensor, &layout) != TORCH_SUCCESS || layout != aoti_torch_layout_strided())
    return nullptr;
  if (device == aoti_torch_device_type_cpu()) return cpu_call();
  if (device == aoti_torch_device_type_cuda() && cuda_call != nullptr) return cuda_call();
  return nullptr;
}

// Calls an operator. Returns false if that failed; the arguments on the stack have been consumed then, too.
bool dispatch(const char* name, const char* overload, FastCall& call, FastCall** slot, StableIValue* stack) {
  PyThreadState* thread = PyEval_SaveThread();
  *slot = &call;
  const AOTITorchError error = aoti_torch_call_dispatcher(name, overload, stack);
  *slot = nullptr;
  PyEval_RestoreThread(thread);
  return error == TORCH_SUCCESS;
}

// Python's tensor for a handle, of which it takes ownership.
PyObject* wrapped(AtenTensorHandle handle) {
  PyObject* result = nullptr;
  if (torch_tensor_to_pyobject != nullptr) {
    void* object = nullptr;
    torch_tensor_to_pyobject(handle, nullptr, &object);
    result = static_cast<PyObject*>(object);
  } else {
    const Object capsule(PyCapsule_New(handle, nullptr, nullptr));
    if (capsule) result = PyObject_CallFunctionObjArgs(torch_.from_capsule, capsule.get(), nullptr);
    if (is_true(torch_.takes_ownership)) return result;
  }
  aoti_torch_delete_tensor_object(handle);
  return result;
}

// The list of tensors that the dispatcher returned, as a Python list; null after an error.
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

// Appends a list of ints to the call's lists; returns false if it is not a list or tuple of plain ints, or is too long.
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

// The arguments after the first, with lists as tuples: what is kept for the backward pass must not change.
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

// The operators. Each function is called with the arguments of the Python function in their order: the first argument
// (a tensor, or a list of them), the sequence lengths if there are any, the lists of numbers, and the axis.

struct Shape {
  const char* name;
  int number;          // its index in `recorders`
  int lists;           // how many lists of numbers it takes
  bool last_optional;  // whether the last list may be None
  bool has_axis;       // whether it takes an axis
  bool has_lengths;    // whether it takes a tensor of sequence lengths
  bool takes_list;     // of tensors, as its first argument
  bool gives_list;     // of tensors, as its result
};

constexpr Shape kSlice1{"torch_dml_ops::slice1", 0, 4, true, false, false, false, false};
constexpr Shape kSliceGrad{"torch_dml_ops::slice_grad", 1, 4, false, false, false, false, false};
constexpr Shape kSplit{"torch_dml_ops::split", 2, 1, false, true, false, false, true};
constexpr Shape kJoin{"torch_dml_ops::join", 3, 0, false, true, false, true, false};
constexpr Shape kReverse{"torch_dml_ops::reverse_subsequences", 4, 0, false, true, true, false, false};

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

// The first argument, in which the operator is linear: one tensor or several.
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

// Puts a list of tensors on the stack. Returns the slot of the first one, or null if something is wrong.
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

// The overloads of join that take two, three or four tensors as separate arguments, which costs the dispatcher less
// than a list does.
constexpr const char* kJoinOverloads[] = {nullptr, nullptr, "fast_2", "fast_3", "fast_4"};

// The result of a join of a few tensors, by one of those overloads.
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
    return fall_back();
  }
  if (!dispatch("torch_dml_ops::join", kJoinOverloads[count], fast, slot, stack)) return fall_back();
  if (fast.refused) {
    aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[0]));
    Py_RETURN_NONE;
  }
  return wrapped(stable::to<AtenTensorHandle>(stack[0]));
}

// The result of the overload `fast`.
template <const Shape& shape>
PyObject* result_of(const Linear<shape.takes_list>& linear, PyObject* const* arguments, FastCall& fast) {
  StableIValue stack[2] = {};
  FastCall** slot = nullptr;
  if constexpr (shape.takes_list) {
    const Py_ssize_t count = linear.tensors.size();
    if (count < Py_ssize_t(std::size(kJoinOverloads)) && kJoinOverloads[count] != nullptr)
      return join_of_few(linear.tensors, fast);
    slot = send_list(linear.tensors, stack[0]);
    if (slot == nullptr) return fall_back();
  } else {
    Handle handle(linear.tensor);
    if (!handle || (slot = slot_for(handle.get())) == nullptr) return fall_back();
    if constexpr (shape.has_lengths) {
      Handle lengths(arguments[1]);
      if (!lengths) return fall_back();
      stack[1] = lengths.send();
    }
    stack[0] = handle.send();
  }
  if (!dispatch(shape.name, "fast", fast, slot, stack)) return fall_back();
  if constexpr (shape.gives_list) {
    auto list = stable::to<StableListHandle>(stack[0]);
    PyObject* results = fast.refused ? fall_back() : wrapped_list(list);
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

// Whether `out` is plain, needs no derivative, and may be written to.
bool writable(PyObject* out, bool grad_mode) {
  return is_plain(out) && !(grad_mode && requires_grad(out)) && !answers_true(out, names.is_inference);
}

// Calls the overload `fast_out`, and returns `out`.
template <const Shape& shape>
PyObject* written(const Linear<shape.takes_list>& linear, PyObject* const* arguments, PyObject* given, FastCall& fast) {
  // A list belongs to the caller, who may change it while other threads run.
  const Object kept(PyList_CheckExact(given) != 0 ? PyList_AsTuple(given) : Py_NewRef(given));
  if (!kept) return fall_back();
  const Linear<shape.gives_list> out(kept.get());
  if (!out.plain()) return fall_back();
  const bool grad_mode = aoti_torch_grad_mode_is_enabled();
  StableIValue stack[3] = {};
  int used = 0;
  FastCall** slot = nullptr;
  // Everything is checked first: the dispatcher owns what is pushed on its stack.
  if constexpr (shape.gives_list) {
    for (Py_ssize_t k = 0; k < out.tensors.size(); ++k)
      if (!writable(out.tensors[k], grad_mode)) return fall_back_unless_interrupted();
  } else {
    if (!writable(out.tensor, grad_mode)) return fall_back_unless_interrupted();
  }
  if constexpr (shape.takes_list) {
    slot = send_list(linear.tensors, stack[used]);
    if (slot == nullptr) return fall_back();
    ++used;
  } else {
    Handle handle(linear.tensor);
    if (!handle || (slot = slot_for(handle.get())) == nullptr) return fall_back();
    stack[used++] = handle.send();
    if constexpr (shape.has_lengths) {
      Handle lengths(arguments[1]);
      if (!lengths) {
        aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[0]));
        return fall_back();
      }
      stack[used++] = lengths.send();
    }
  }
  const auto give_up = [&] {
    if constexpr (shape.takes_list) {
      delete_tensors(stable::to<StableListHandle>(stack[0]));
    } else {
      for (int k = 0; k < used; ++k) aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(stack[k]));
    }
    return fall_back();
  };
  if constexpr (shape.gives_list) {
    if (send_list(out.tensors, stack[used]) == nullptr) return give_up();
  } else {
    Handle handle(out.tensor);
    if (!handle || slot_for(handle.get()) == nullptr) return give_up();
    stack[used] = handle.send();
  }
  if (!dispatch(shape.name, "fast_out", fast, slot, stack) || fast.refused) return fall_back();
  const Object tensors(shape.gives_list ? Py_NewRef(kept.get()) : PyTuple_Pack(1, given));
  const Object done(PyObject_CallFunctionObjArgs(torch_.increment_version, tensors.get(), nullptr));
  return done ? Py_NewRef(given) : nullptr;
}

// Makes a call that autograd records, as `requiring_grad` requires grad.
PyObject* record(const Shape& shape, PyObject* requiring_grad, PyObject* first, PyObject* others) {
  const Recorder& recorder = recorders[shape.number];
  // Below autograd, as in __torch_dispatch__, there is nothing to record; nor of a transform that has ended.
  if (recorder.apply == nullptr || says_true(torch_.is_excluded, torch_.autograd_key) ||
      says_true(torch_.is_wrapped, requiring_grad))
    return fall_back();
  PyObject* results = nullptr;
  if (shape.takes_list) {
    const Tensors inputs(first);
    const Object arguments(PyTuple_New(1 + inputs.size()));
    if (!arguments) return nullptr;
    PyTuple_SetItem(arguments.get(), 0, Py_NewRef(others));
    for (Py_ssize_t k = 0; k < inputs.size(); ++k) PyTuple_SetItem(arguments.get(), 1 + k, Py_NewRef(inputs[k]));
    results = PyObject_CallObject(recorder.apply, arguments.get());
  } else {
    results = PyObject_CallFunctionObjArgs(recorder.apply, first, others, nullptr);
  }
  if (results == nullptr) return PyErr_ExceptionMatches(not_plain) != 0 ? fall_back() : nullptr;
  if (!shape.gives_list) return results;
  const Object tuple(results);  // what autograd makes of several results
  return PySequence_List(tuple.get());
}

// Calls the operator. The last argument is `out`, or None.
template <const Shape& shape>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != arguments_of(shape) + 1) return fall_back();
  PyObject* out = arguments[count - 1];
  const Linear<shape.takes_list> linear(arguments[0]);
  if (!linear.plain() || (shape.has_lengths && !is_plain(arguments[1]))) return fall_back();
  FastCall fast;
  if (!read_numbers(shape, arguments, fast) || !nothing_else_at_work()) return fall_back();
  PyObject* requiring_grad = aoti_torch_grad_mode_is_enabled() ? linear.requiring_grad() : nullptr;
  if (requiring_grad != nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (out != Py_None) return fall_back();
    const Object others(frozen(arguments + 1, count - 2));
    return others ? record(shape, requiring_grad, arguments[0], others.get()) : nullptr;
  }
  return out == Py_None ? result_of<shape>(linear, arguments, fast) : written<shape>(linear, arguments, out, fast);
}

// What a recorded call keeps for its backward pass in `ctx.recorded`: the shape of the linear input, or a tuple of
// them, and the other arguments. Sequence lengths are saved as tensors are, so that writing to them before the backward
// pass is an error.
template <const Shape& shape>
bool keep(PyObject* ctx, PyObject* first, PyObject* others) {
  Object shapes(shape.takes_list ? PyTuple_New(PyTuple_Size(first)) : PyObject_GetAttr(first, names.shape));
  if (!shapes) return false;
  if constexpr (shape.takes_list) {
    for (Py_ssize_t k = 0; k < PyTuple_Size(first); ++k) {
      PyObject* one = PyObject_GetAttr(PyTuple_GetItem(first, k), names.shape);
      if (one == nullptr) return false;
      PyTuple_SetItem(shapes.get(), k, one);
    }
  }
  Object kept(Py_NewRef(others));
  if constexpr (shape.has_lengths) {
    const Object done(PyObject_CallMethodObjArgs(ctx, names.save_for_backward, PyTuple_GetItem(others, 0), nullptr));
    kept = Object(PyTuple_GetSlice(others, 1, PyTuple_Size(others)));
    if (!done || !kept) return false;
  }
  const Object recorded(PyTuple_Pack(2, shapes.get(), kept.get()));
  return recorded && PyObject_SetAttr(ctx, names.recorded, recorded.get()) == 0;
}

// forward(ctx, input, others) or forward(ctx, others, *inputs): calls the operator below the Autograd key. What `call`
// has checked is not checked again.
template <const Shape& shape>
PyObject* forward(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kMost = 6;
  static_assert(arguments_of(shape) <= kMost);
  PyObject* ctx = arguments[0];
  PyObject* others = arguments[shape.takes_list ? 1 : 2];
  const Object first(shape.takes_list ? PyTuple_New(count - 2) : Py_NewRef(arguments[1]));
  if (!first) return nullptr;
  if constexpr (shape.takes_list)
    for (Py_ssize_t k = 2; k < count; ++k) PyTuple_SetItem(first.get(), k - 2, Py_NewRef(arguments[k]));

  PyObject* given[kMost] = {first.get()};
  for (Py_ssize_t k = 1; k < arguments_of(shape); ++k) given[k] = PyTuple_GetItem(others, k - 1);
  const Linear<shape.takes_list> linear(first.get());
  FastCall fast;
  Object results(read_numbers(shape, given, fast) ? result_of<shape>(linear, given, fast) : fall_back());
  if (!results) return nullptr;
  if (results.get() == Py_None) {
    PyErr_SetNone(not_plain);
    return nullptr;
  }
  if (!keep<shape>(ctx, first.get(), others)) return nullptr;
  return shape.gives_list ? PyList_AsTuple(results.get()) : results.release();
}

// The transposes: the cotangents of the linear inputs, of those of the results, and of what was kept, which for
// sequence lengths is the tuple of saved tensors.

PyObject* transpose_of_slice1(PyObject* ctx, PyObject* shapes, PyObject* others, PyObject*, PyObject* cotangents) {
  PyObject* const arguments[] = {PyTuple_GetItem(cotangents, 0), shapes,
                                 PyTuple_GetItem(others, 0),     PyTuple_GetItem(others, 1),
                                 PyTuple_GetItem(others, 2),     Py_None};
  return call<kSliceGrad>(ctx, arguments, std::size(arguments));
}

PyObject* transpose_of_slice_grad(PyObject* ctx, PyObject* shapes, PyObject* others, PyObject*, PyObject* cotangents) {
  PyObject* const arguments[] = {PyTuple_GetItem(cotangents, 0),
                                 PyTuple_GetItem(others, 1),
                                 PyTuple_GetItem(others, 2),
                                 PyTuple_GetItem(others, 3),
                                 shapes,
                                 Py_None};
  return call<kSlice1>(ctx, arguments, std::size(arguments));
}

PyObject* transpose_of_split(PyObject* ctx, PyObject*, PyObject* others, PyObject*, PyObject* cotangents) {
  PyObject* const arguments[] = {cotangents, PyTuple_GetItem(others, 1), Py_None};
  return call<kJoin>(ctx, arguments, std::size(arguments));
}

PyObject* transpose_of_join(PyObject* ctx, PyObject* shapes, PyObject* others, PyObject*, PyObject* cotangents) {
  PyObject* axis = PyTuple_GetItem(others, 0);
  const Object sizes(PyTuple_New(PyTuple_Size(shapes)));
  if (!sizes) return nullptr;
  for (Py_ssize_t k = 0; k < PyTuple_Size(shapes); ++k) {
    PyObject* size = PyObject_GetItem(PyTuple_GetItem(shapes, k), axis);
    if (size == nullptr) return nullptr;
    PyTuple_SetItem(sizes.get(), k, size);
  }
  PyObject* const arguments[] = {PyTuple_GetItem(cotangents, 0), sizes.get(), axis, Py_None};
  return call<kSplit>(ctx, arguments, std::size(arguments));
}

PyObject* transpose_of_reverse(PyObject* ctx, PyObject*, PyObject* others, PyObject* saved, PyObject* cotangents) {
  PyObject* const arguments[] = {PyTuple_GetItem(cotangents, 0), PyTuple_GetItem(saved, 0), PyTuple_GetItem(others, 0),
                                 Py_None};
  return call<kReverse>(ctx, arguments, std::size(arguments));
}

// What autograd calls with the cotangents, in the place of `apply` of autograd's own class: a cotangent for each
// argument of the recorder's `apply`. Saved tensors are unpacked once, as hooks may allow no more.
template <const Shape& shape, auto transpose>
PyObject* backward(PyObject* ctx, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 0) return PyErr_Format(PyExc_TypeError, "apply takes a cotangent for each result, got none");
  const Object recorded(PyObject_GetAttr(ctx, names.recorded));
  const Object cotangents(PyTuple_New(count));
  if (!recorded || !cotangents) return nullptr;
  for (Py_ssize_t k = 0; k < count; ++k) PyTuple_SetItem(cotangents.get(), k, Py_NewRef(arguments[k]));
  const Object saved(shape.has_lengths ? PyObject_GetAttr(ctx, names.saved_tensors) : PyTuple_New(0));
  if (!saved) return nullptr;
  const Object results(transpose(ctx, PyTuple_GetItem(recorded.get(), 0), PyTuple_GetItem(recorded.get(), 1),
                                 saved.get(), cotangents.get()));
  if (!results) return nullptr;
  if (results.get() == Py_None)
    return PyObject_CallFunctionObjArgs(recorders[shape.number].transposed, recorded.get(), saved.get(),
                                        cotangents.get(), nullptr);
  if constexpr (shape.takes_list) {
    const Object tuple(PyList_AsTuple(results.get()));
    const Object none(PyTuple_Pack(1, Py_None));
    return tuple && none ? PySequence_Concat(none.get(), tuple.get()) : nullptr;
  } else {
    return PyTuple_Pack(2, results.get(), Py_None);
  }
}

// set_up(torch): an object with what Torch has, under the same names.
PyObject* set_up(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1) return PyErr_Format(PyExc_TypeError, "set_up takes 1 argument, got %zd", count);
  const std::pair<const char*, PyObject**> members[] = {{"tensor", &torch_.tensor},
                                                        {"parameter", &torch_.parameter},
                                                        {"size", &torch_.size},
                                                        {"checks", &torch_.checks},
                                                        {"count_modes", &torch_.count_modes},
                                                        {"mode_at", &torch_.mode_at},
                                                        {"harmless_modes", &torch_.harmless_modes},
                                                        {"pre_dispatch_modes", &torch_.pre_dispatch_modes},
                                                        {"forward_ad", &torch_.forward_ad},
                                                        {"registered", &torch_.registered},
                                                        {"foreign", &torch_.foreign},
                                                        {"is_excluded", &torch_.is_excluded},
                                                        {"autograd_key", &torch_.autograd_key},
                                                        {"is_wrapped", &torch_.is_wrapped},
                                                        {"to_capsule", &torch_.to_capsule},
                                                        {"from_capsule", &torch_.from_capsule},
                                                        {"takes_ownership", &torch_.takes_ownership},
                                                        {"increment_version", &torch_.increment_version},
                                                        {"cpu_call", &torch_.cpu_call},
                                                        {"cuda_call", &torch_.cuda_call}};
  for (const auto& [name, member] : members)
    if ((*member = PyObject_GetAttrString(arguments[0], name)) == nullptr) return nullptr;
  cpu_call = reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(torch_.cpu_call));
  cuda_call = reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(torch_.cuda_call));
  names = {PyUnicode_InternFromString("requires_grad"),  PyUnicode_InternFromString("is_inference"),
           PyUnicode_InternFromString("_current_level"), PyUnicode_InternFromString("isdisjoint"),
           PyUnicode_InternFromString("start"),          PyUnicode_InternFromString("stop"),
           PyUnicode_InternFromString("step"),           PyUnicode_InternFromString("shape"),
           PyUnicode_InternFromString("recorded"),       PyUnicode_InternFromString("save_for_backward"),
           PyUnicode_InternFromString("saved_tensors")};
  Py_RETURN_NONE;
}

// Whether a slice consists of ints and None only. (PySlice_Unpack would turn a symbolic size into a number, which would
// then be a constant of the traced graph.)
bool is_plain_slice(PyObject* slice) {
  if (Py_TYPE(slice) != &PySlice_Type) return false;
  for (PyObject* name : {names.start, names.stop, names.step}) {
    const Object part(PyObject_GetAttr(slice, name));
    if (!part || (part.get() != Py_None && PyLong_CheckExact(part.get()) == 0)) return false;
  }
  return true;
}

// NumPy's basic indices: slices and whole numbers, one for each dimension, None, and at most one Ellipsis.
class Index {
 public:
  explicit Index(PyObject* index)
      : index_(index), is_tuple_(PyTuple_CheckExact(index) != 0), entries_(is_tuple_ ? PyTuple_Size(index) : 1) {}

  // Whether all entries are such, and the numbers plain ints. Nothing is known of their values yet.
  bool plain() {
    for (Py_ssize_t k = 0; k < entries_; ++k) {
      PyObject* entry = (*this)[k];
      if (entry == Py_None)
        ++new_dims_;
      else if (PyLong_CheckExact(entry) != 0)
        ++numbers_;
      else if (entry == Py_Ellipsis && ellipsis_ == entries_)
        ellipsis_ = k;
      else if (is_plain_slice(entry))
        ++slices_;
      else
        return false;
    }
    return true;
  }

  bool slices_alone() const { return numbers_ + new_dims_ == 0; }

  // The window that is read of a tensor of these sizes, a number reading one element, and the sizes of the result
  // behind it. False where a number or the number of entries is out of range, and where nothing is read.
  bool read(const int64_t* sizes, int64_t rank, FastCall& call) const {
    const int64_t whole = rank - slices_ - numbers_, result_rank = rank - numbers_ + new_dims_;
    if (whole < 0 || rank < 1 || 3 * rank + result_rank > FastCall::kMostNumbers) return false;
    for (int k = 0; k <= 3; ++k) call.begin[k] = k * rank;
    call.begin[4] = 3 * rank + result_rank;
    call.lists = 3;
    int64_t d = 0, *result_size = call.numbers + 3 * rank;
    for (Py_ssize_t k = 0; k <= entries_; ++k) {
      if (k == ellipsis_)  // it is behind the last entry where there is none
        for (int64_t left = whole; left > 0; --left, ++d)
          if (!read_slice(nullptr, sizes[d], &call.numbers[d], rank, *result_size++)) return false;
      PyObject* entry = k < entries_ ? (*this)[k] : Py_Ellipsis;
      if (entry == Py_Ellipsis) continue;
      if (entry == Py_None) {
        *result_size++ = 1;
      } else if (PyLong_CheckExact(entry) != 0) {
        if (!read_number(entry, sizes[d], &call.numbers[d], rank)) return false;
        ++d;
      } else {
        if (!read_slice(entry, sizes[d], &call.numbers[d], rank, *result_size++)) return false;
        ++d;
      }
    }
    return true;
  }

 private:
  PyObject* operator[](Py_ssize_t k) const { return is_tuple_ ? PyTuple_GetItem(index_, k) : index_; }

  // Both write offset, size and stride to numbers[0], [rank] and [2 * rank]. A slice of null is the whole dimension.
  static bool read_slice(PyObject* slice, int64_t size, int64_t* numbers, int64_t rank, int64_t& steps) {
    Py_ssize_t start = 0, stop = size, step = 1;
    if (slice != nullptr && PySlice_Unpack(slice, &start, &stop, &step) != 0) return false;
    steps = PySlice_AdjustIndices(size, &start, &stop, step);
    if (steps < 1) return false;
    numbers[rank] = (steps - 1) * (step < 0 ? -step : step) + 1;
    numbers[0] = step < 0 ? start - numbers[rank] + 1 : start;
    numbers[2 * rank] = step;
    return true;
  }

  static bool read_number(PyObject* number, int64_t size, int64_t* numbers, int64_t rank) {
    int overflow = 0;
    const int64_t index = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0 || index < -size || index >= size) return false;
    numbers[0] = index < 0 ? index + size : index;
    numbers[rank] = numbers[2 * rank] = 1;
    return true;
  }

  PyObject* index_;
  bool is_tuple_;
  Py_ssize_t entries_;
  Py_ssize_t ellipsis_ = entries_;
  int64_t slices_ = 0, numbers_ = 0, new_dims_ = 0;
};

// The lists of a window as tuples, and None if there is to be one more argument.
Object as_tuples(const FastCall& call, bool none_at_the_end) {
  Object result(PyTuple_New(call.lists + none_at_the_end));
  for (int k = 0; k < call.lists && result; ++k) {
    const auto list = call.list(k);
    PyObject* tuple = PyTuple_New(Py_ssize_t(list.size()));
    if (tuple == nullptr) return Object(nullptr);
    PyTuple_SetItem(result.get(), k, tuple);
    for (std::size_t d = 0; d < list.size(); ++d) {
      PyObject* number = PyLong_FromLongLong(list[d]);
      if (number == nullptr) return Object(nullptr);
      PyTuple_SetItem(tuple, Py_ssize_t(d), number);
    }
  }
  if (result && none_at_the_end) PyTuple_SetItem(result.get(), call.lists, Py_NewRef(Py_None));
  return result;
}

// window(shape, index): the result of torch_dml_ops.window for sizes that are ints and slices of ints or None that
// select something; None for everything else.
PyObject* window(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain_tuple(arguments[0])) return fall_back();
  FastCall shape, call;
  Index index(arguments[1]);
  if (!read_list(arguments[0], shape) || !index.plain() || !index.slices_alone() ||
      !index.read(shape.numbers, shape.begin[1], call))
    return fall_back();
  Object result = as_tuples(call, false);
  return result ? result.release() : fall_back();
}

// A tensor of these sizes in place of another one, as torch_dml_ops._index.reshaped makes it. Takes the handle over.
PyObject* reshaped(AtenTensorHandle handle, std::span<const int64_t> sizes) {
  StableListHandle list = nullptr;
  bool done = torch_new_list_reserve_size(sizes.size(), &list) == TORCH_SUCCESS;
  for (std::size_t k = 0; done && k < sizes.size(); ++k)
    done = torch_list_push_back(list, stable::from(sizes[k])) == TORCH_SUCCESS;
  if (!done) {
    aoti_torch_delete_tensor_object(handle);
    if (list != nullptr) torch_delete_list(list);
    return fall_back();
  }
  StableIValue stack[] = {stable::from(handle), stable::from(list)};
  PyThreadState* thread = PyEval_SaveThread();
  const AOTITorchError error = aoti_torch_call_dispatcher("aten::_unsafe_view", "", stack);
  PyEval_RestoreThread(thread);
  return error == TORCH_SUCCESS ? wrapped(stable::to<AtenTensorHandle>(stack[0])) : fall_back();
}

// index(input, index): the result of torch_dml_ops.index(input)[index] if all is plain and something is selected; None
// for everything else.
PyObject* index(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain(arguments[0])) return fall_back();
  Index index(arguments[1]);
  if (!index.plain() || !nothing_else_at_work()) return fall_back();
  FastCall call;
  Handle handle(arguments[0]);
  FastCall** slot = handle ? slot_for(handle.get()) : nullptr;
  int64_t rank = 0, *sizes = nullptr;
  if (slot == nullptr || aoti_torch_get_dim(handle.get(), &rank) != TORCH_SUCCESS ||
      aoti_torch_get_sizes(handle.get(), &sizes) != TORCH_SUCCESS || !index.read(sizes, rank, call))
    return fall_back();
  if (aoti_torch_grad_mode_is_enabled() && requires_grad(arguments[0])) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    const Object others = as_tuples(call, true);
    Object result(others ? record(kSlice1, arguments[0], arguments[0], others.get()) : nullptr);
    if (!result || result.get() == Py_None || index.slices_alone()) return result.release();
    Handle recorded(result.get());
    return recorded ? reshaped(recorded.release(), call.list(3)) : fall_back();
  }
  StableIValue stack[] = {handle.send()};
  if (!dispatch(kSlice1.name, "fast", call, slot, stack)) return fall_back();
  const auto result = stable::to<AtenTensorHandle>(stack[0]);
  if (!call.refused) return index.slices_alone() ? wrapped(result) : reshaped(result, call.list(3));
  aoti_torch_delete_tensor_object(result);
  Py_RETURN_NONE;
}

using Function = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Function function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

// As methods of autograd's classes, which are called with the node that they record.
PyMethodDef backward_methods[] = {method("slice1", backward<kSlice1, transpose_of_slice1>),
                                  method("slice_grad", backward<kSliceGrad, transpose_of_slice_grad>),
                                  method("split", backward<kSplit, transpose_of_split>),
                                  method("join", backward<kJoin, transpose_of_join>),
                                  method("reverse_subsequences", backward<kReverse, transpose_of_reverse>)};

// record_with(number, function, NotPlain): calls of the operator that need a derivative are recorded by this subclass
// of autograd.Function, which has its `forward` and `backward`.
PyObject* record_with(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "record_with takes 3 arguments, got %zd", count);
  const long number = PyLong_AsLong(arguments[0]);
  if (number < 0 || number >= long(std::size(recorders))) return PyErr_Format(PyExc_IndexError, "no such operator");
  const Object node(PyObject_GetAttrString(arguments[1], "_backward_cls"));
  if (!node) return nullptr;
  const Object method(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(node.get()), &backward_methods[number]));
  if (!method || PyObject_SetAttrString(node.get(), "apply", method.get()) != 0) return nullptr;
  Object apply(PyObject_GetAttrString(arguments[1], "apply")),
      transposed(PyObject_GetAttrString(arguments[1], "transposed"));
  if (!apply || !transposed) return nullptr;
  recorders[number] = {apply.release(), transposed.release()};
  not_plain = Py_NewRef(arguments[2]);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {method("set_up", set_up),
                         method("record_with", record_with),
                         method("slice1", call<kSlice1>),
                         method("slice_grad", call<kSliceGrad>),
                         method("split", call<kSplit>),
                         method("join", call<kJoin>),
                         method("reverse_subsequences", call<kReverse>),
                         method("slice1_forward", forward<kSlice1>),
                         method("slice_grad_forward", forward<kSliceGrad>),
                         method("split_forward", forward<kSplit>),
                         method("join_forward", forward<kJoin>),
                         method("reverse_subsequences_forward", forward<kReverse>),
                         method("window", window),
                         method("index", index),
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef module{PyModuleDef_HEAD_INIT, "_fast_calls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__fast_calls() { return PyModule_Create(&module); }
