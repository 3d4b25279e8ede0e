// What the short way rests on: what is asked of torch, when a call is plain, and how tensors and numbers go from Python
// to the dispatcher and back.

#undef Py_LIMITED_API  // torch's builds define the same in other letters
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <utility>

#include "../ops/fast_call.h"

// In torch 2.14 and later. Weak: null where this torch lacks them.
extern "C" {
__attribute__((weak)) AOTITorchError torch_tensor_from_pyobject(void* object, AtenTensorHandle* result);
__attribute__((weak)) AOTITorchError torch_tensor_to_pyobject(AtenTensorHandle tensor, void* type, void** result);
}

namespace torch_dml_ops::python {
namespace {

namespace stable = torch::stable::detail;

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

}  // namespace
}  // namespace torch_dml_ops::python
