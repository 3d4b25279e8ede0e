// A short way from Python to the operators, for plain tensors.
//
// Each function here takes the operator's arguments and returns its result. It returns None if the call is not plain (a
// subclass, a mode, a transform or tracing is involved, or numbers are not plain ints) or if the operator refuses it.
// The caller then makes the call in the ordinary way, which converts the numbers or says what is wrong. If autograd has
// to record the call, the arguments after the first are passed to the recorder as tuples, which cannot change before
// the backward pass. torch_dml_ops/_fast.py is the Python side.
//
// The tensors go through the dispatcher to the overload `fast` of each operator, which takes its numbers from a
// FastCall. So whatever the dispatcher handles (conjugate views and functional tensors, for example) works as usual,
// and the profiler sees the call.
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <iterator>
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

// For each operator, the function that makes a call that autograd records. It takes the first argument and a tuple of
// the others.
PyObject* recorders[5] = {};

// What set_up was called with.
struct Torch {
  PyObject* tensor;        // torch.Tensor
  PyObject* parameter;     // torch.nn.Parameter
  PyObject* size;          // torch.Size
  PyObject* checks;        // functions that return something true where more than a plain call is at work
  PyObject* forward_ad;    // the dictionary of torch.autograd.forward_ad
  PyObject* to_capsule;    // makes a capsule with a new handle of a tensor; the handle has to be deleted
  PyObject* from_capsule;  // makes a tensor from such a capsule
  bool takes_over;         // whether from_capsule takes ownership of the handle, as torch's name for it says
  PyObject* increment_version;
  FastCall** (*cpu_call)();
  FastCall** (*cuda_call)();  // null where there are no CUDA kernels
} torch_;

// Names of attributes and methods, as Python strings.
struct Names {
  PyObject *requires_grad, *is_inference, *is_conj, *is_neg, *current_level, *start, *stop, *step;
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

// Returns None without an error: the caller falls back to the ordinary way, which reports any error itself.
PyObject* other_way() {
  PyErr_Clear();
  Py_RETURN_NONE;
}

bool is_true(PyObject* object) { return object == Py_True; }

bool is_plain(PyObject* object) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == torch_.tensor || type == torch_.parameter;
}

// A tuple that can be read by index. (A subclass may yield other entries when it is iterated.)
bool is_plain_tuple(PyObject* object) {
  return PyTuple_CheckExact(object) != 0 || reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch_.size;
}

// Whether no mode, transform, tracing or forward-mode differentiation is active.
bool nothing_else_at_work() {
  const Py_ssize_t count = PyTuple_Size(torch_.checks);
  for (Py_ssize_t k = 0; k < count; ++k) {
    const Object result(PyObject_CallNoArgs(PyTuple_GetItem(torch_.checks, k)));
    if (!result || PyObject_IsTrue(result.get()) != 0) return false;
  }
  PyObject* level = PyDict_GetItemWithError(torch_.forward_ad, names.current_level);
  return level != nullptr && PyLong_AsLong(level) < 0;
}

bool answers_true(PyObject* tensor, PyObject* method) {
  const Object result(PyObject_CallMethodObjArgs(tensor, method, nullptr));
  return !result || is_true(result.get());
}

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
  StableIValue send() { return stable::from(std::exchange(handle_, nullptr)); }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// Where the library with kernels for this tensor looks for its FastCall; null if no library has any.
FastCall** slot_for(AtenTensorHandle tensor) {
  int32_t device = 0, layout = 0;
  if (aoti_torch_get_device_type(tensor, &device) != TORCH_SUCCESS ||
      aoti_torch_get_layout(tensor, &layout) != TORCH_SUCCESS || layout != aoti_torch_layout_strided())
    return nullptr;
  if (device == aoti_torch_device_type_cpu()) return torch_.cpu_call();
  if (device == aoti_torch_device_type_cuda() && torch_.cuda_call != nullptr) return torch_.cuda_call();
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
    if (torch_.takes_over) return result;
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

// The first argument, in which the operator is linear: one tensor or several.
template <bool several>
struct Linear;

template <>
struct Linear<false> {
  explicit Linear(PyObject* argument) : tensor(argument) {}
  bool plain() const { return is_plain(tensor); }
  bool any_requires_grad() const { return requires_grad(tensor); }
  PyObject* first() const { return tensor; }
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
  bool any_requires_grad() const {
    for (Py_ssize_t k = 0; k < tensors.size(); ++k)
      if (requires_grad(tensors[k])) return true;
    return false;
  }
  Tensors tensors;
};

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
      torch_delete_list(list);
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

// Whether `out` is plain, needs no derivative, and may be written to.
bool writable(PyObject* out, bool grad_mode) {
  return is_plain(out) && !(grad_mode && requires_grad(out)) && !answers_true(out, names.is_inference) &&
         !answers_true(out, names.is_conj) && !answers_true(out, names.is_neg);
}

// Calls the overload `fast_out`, and returns `out`.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* written(const Linear<takes_list>& linear, PyObject* const* arguments, PyObject* given, FastCall& fast) {
  // A list belongs to the caller, who may change it while other threads run.
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
      torch_delete_list(stable::to<StableListHandle>(stack[0]));
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

// Calls the operator. The last argument is `out`, or None.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != arguments_of(shape) + 1) return other_way();
  PyObject* out = arguments[count - 1];
  const Linear<takes_list> linear(arguments[0]);
  if (!linear.plain() || (shape.has_lengths && !is_plain(arguments[1]))) return other_way();
  FastCall fast;
  if (!read_numbers(shape, arguments, fast) || !nothing_else_at_work()) return other_way();
  if (aoti_torch_grad_mode_is_enabled() && linear.any_requires_grad()) {
    if (out != Py_None || recorders[shape.number] == nullptr) return other_way();
    const Object others(frozen(arguments + 1, count - 2));
    return others ? PyObject_CallFunctionObjArgs(recorders[shape.number], arguments[0], others.get(), nullptr)
                  : nullptr;
  }
  return out == Py_None ? result_of<shape, takes_list, gives_list>(linear, arguments, fast)
                        : written<shape, takes_list, gives_list>(linear, arguments, out, fast);
}

// The same below the Autograd key, for a recorder. What `call` has checked is not checked again.
template <const Shape& shape, bool takes_list, bool gives_list>
PyObject* below(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != arguments_of(shape)) return other_way();
  const Linear<takes_list> linear(arguments[0]);
  FastCall fast;
  if (!linear.plain() || !read_numbers(shape, arguments, fast)) return other_way();
  return result_of<shape, takes_list, gives_list>(linear, arguments, fast);
}

// set_recorders(slice1, slice_grad, split, join, reverse_subsequences)
PyObject* set_recorders(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != Py_ssize_t(std::size(recorders)))
    return PyErr_Format(PyExc_TypeError, "set_recorders takes 5 arguments, got %zd", count);
  for (Py_ssize_t k = 0; k < count; ++k) recorders[k] = Py_NewRef(arguments[k]);
  Py_RETURN_NONE;
}

// set_up(Tensor, Parameter, Size, checks, forward_ad, to_capsule, from_capsule, takes_over, increment_version,
// cpu_call, cuda_call): the last two are addresses of the libraries' torch_dml_ops_fast_call, 0 for none.
PyObject* set_up(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 11) return PyErr_Format(PyExc_TypeError, "set_up takes 11 arguments, got %zd", count);
  torch_ = {Py_NewRef(arguments[0]),
            Py_NewRef(arguments[1]),
            Py_NewRef(arguments[2]),
            Py_NewRef(arguments[3]),
            Py_NewRef(arguments[4]),
            Py_NewRef(arguments[5]),
            Py_NewRef(arguments[6]),
            is_true(arguments[7]),
            Py_NewRef(arguments[8]),
            reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(arguments[9])),
            reinterpret_cast<FastCall** (*)()>(PyLong_AsVoidPtr(arguments[10]))};
  names = {PyUnicode_InternFromString("requires_grad"),  PyUnicode_InternFromString("is_inference"),
           PyUnicode_InternFromString("is_conj"),        PyUnicode_InternFromString("is_neg"),
           PyUnicode_InternFromString("_current_level"), PyUnicode_InternFromString("start"),
           PyUnicode_InternFromString("stop"),           PyUnicode_InternFromString("step")};
  Py_RETURN_NONE;
}

// Sets an entry of a new tuple.
bool put(PyObject* tuple, Py_ssize_t d, Py_ssize_t number) {
  PyObject* object = PyLong_FromSsize_t(number);
  return object != nullptr && PyTuple_SetItem(tuple, d, object) == 0;
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

// window(shape, index): the result of torch_dml_ops.window for sizes that are ints and slices of ints or None that
// select something; None for everything else.
PyObject* window(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain_tuple(arguments[0])) return other_way();
  const bool is_tuple = PyTuple_CheckExact(arguments[1]) != 0;
  const Py_ssize_t rank = PyTuple_Size(arguments[0]), entries = is_tuple ? PyTuple_Size(arguments[1]) : 1;
  Py_ssize_t whole = rank - entries, entry = 0, left = 0;  // whole dimensions, at the end or in place of an Ellipsis
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
