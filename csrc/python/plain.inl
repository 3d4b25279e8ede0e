// What the short way rests on: what is asked of torch, when a call is plain, and how tensors and numbers go from Python
// to the dispatcher and back.

#include <pyconfig.h>

#undef Py_LIMITED_API    // torch's builds define the same in other letters
#ifndef Py_GIL_DISABLED  // a free-threaded Python has no limited API
#define Py_LIMITED_API 0x030a0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "../ops/fast_call.h"

// In torch 2.14 and later. Weak: null where this torch lacks them.
extern "C" {
__attribute__((weak)) AOTITorchError torch_tensor_from_pyobject(void* object, AtenTensorHandle* result);
__attribute__((weak)) AOTITorchError torch_tensor_to_pyobject(AtenTensorHandle tensor, void* type, void** result);
}

// Between these, no other thread changes a list or a dictionary. Where there is the interpreter's lock, none does
// anyway as long as no Python code runs; and the limited API has neither.
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

namespace torch_dml_ops::python {
namespace {

namespace stable = torch::stable::detail;

constexpr Py_ssize_t kMostArguments = 8;  // of an operator, with `out`
static_assert(kMostArguments - 2 <= FastCall::kMostLists);

// An attribute of what set_up is called with: an object of this type, or null for anything that can be called.
struct Member {
  inline static std::vector<Member*> all;

  explicit Member(const char* given_name, PyTypeObject* given_type = nullptr) : name(given_name), type(given_type) {
    all.push_back(this);
  }
  Member(const Member&) = delete;
  operator PyObject*() const { return object; }

  const char* name;
  PyTypeObject* type;
  PyObject* object = nullptr;
};

struct Torch {
  Member tensor{"tensor", &PyType_Type};
  Member parameter{"parameter", &PyType_Type};
  Member size{"size", &PyType_Type};
  Member checks{"checks", &PyTuple_Type};  // functions whose result is true where more than a plain call is at work
  Member count_modes{"count_modes"};       // how many modes for torch functions are active
  Member mode_at{"mode_at"};               // gives one of them by its number
  Member harmless_modes{"harmless_modes", &PySet_Type};           // those types of them that do nothing to an operator
  Member pre_dispatch_modes{"pre_dispatch_modes", &PyList_Type};  // of None where there is no such mode
  Member forward_ad{"forward_ad", &PyDict_Type};                  // of torch.autograd.forward_ad
  Member registered{"registered", &PySet_Type};  // all kernels that were registered from Python, by name
  Member foreign{"foreign", &PySet_Type};        // the names of kernels that would not be ours
  Member is_excluded{"is_excluded"};             // whether this thread's calls pass by the kernels at a dispatch key
  Member autograd_key{"autograd_key", &PyBaseObject_Type};
  Member version_key{"version_key", &PyBaseObject_Type};  // at which writes are counted
  Member is_wrapped{"is_wrapped"};      // whether a tensor belongs to a transform, perhaps to one that has ended
  Member to_capsule{"to_capsule"};      // makes a capsule with a new handle of a tensor; the handle has to be deleted
  Member from_capsule{"from_capsule"};  // makes a tensor from such a capsule
  Member takes_ownership{"takes_ownership", &PyBool_Type};  // whether from_capsule takes ownership of the handle
  Member increment_version{"increment_version"};
} torch_;

FastCall** (*cpu_call)() = nullptr;
FastCall** (*cuda_call)() = nullptr;

// Names of attributes and methods, as Python strings.
struct Names {
  PyObject *requires_grad, *is_inference, *current_level, *isdisjoint, *start, *stop, *step;
} names;

bool make_names() {
  const auto name = PyUnicode_InternFromString;
  names = {name("requires_grad"), name("is_inference"), name("_current_level"), name("isdisjoint"), name("start"),
           name("stop"),          name("step")};
  return PyErr_Occurred() == nullptr;
}

// An owned reference, or null after an error.
class Object {
 public:
  Object() = default;
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
  PyObject* object_ = nullptr;
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
  long k = PyLong_AsLong(count.get());
  if (k < 0) return true;
  for (; k > 0; --k) {
    const Object number(PyLong_FromLong(k - 1));
    const Object mode(number ? PyObject_CallFunctionObjArgs(torch_.mode_at, number.get(), nullptr) : nullptr);
    if (!mode || PySet_Contains(torch_.harmless_modes, reinterpret_cast<PyObject*>(Py_TYPE(mode.get()))) != 1)
      return true;
  }
  return false;
}

// Whether all kernels of the operators are the package's own. One that somebody else registers, for example by
// torch.library.register_autocast, does not exist for the overloads `fast`. A change shows in the number of
// kernels, unless as many were removed since the last call; comparing the sets each time would cost too much. What is
// known is twice their number, and 1 more if they are ours.
bool kernels_are_ours() {
  static std::atomic<Py_ssize_t> known = -1;
  const Py_ssize_t count = PySet_Size(torch_.registered), before = known;
  if (before >= 0 && before / 2 == count) return before % 2 != 0;
  const Object result(PyObject_CallMethodObjArgs(torch_.registered, names.isdisjoint, torch_.foreign.object, nullptr));
  const bool ours = result && is_true(result.get());
  known = 2 * count + ours;
  return ours;
}

// Whether no transform, mode for the dispatcher or tracing is active. Asked before a call is recorded; where none is,
// the overloads `fast` themselves refuse it.
bool nothing_in_the_dispatcher() {
  const Py_ssize_t count = PyTuple_Size(torch_.checks);
  for (Py_ssize_t k = 0; k < count; ++k) {
    const Object result(PyObject_CallNoArgs(PyTuple_GetItem(torch_.checks, k)));
    if (!result || PyObject_IsTrue(result.get()) != 0) return false;
  }
  return true;
}

// Whether no mode for functions or before dispatch, forward-mode differentiation or kernel of somebody else is active,
// which the overloads `fast` would not meet.
bool nothing_else_at_work() {
  if (modes_interfere()) return false;
  const Py_ssize_t modes = PyList_Size(torch_.pre_dispatch_modes);
  for (Py_ssize_t k = 0; k < modes; ++k)
    if (PyList_GetItem(torch_.pre_dispatch_modes, k) != Py_None) return false;
  long level = 0;
  Py_BEGIN_CRITICAL_SECTION(torch_.forward_ad.object);
  PyObject* const current = PyDict_GetItemWithError(torch_.forward_ad, names.current_level);
  if (current != nullptr && PyLong_CheckExact(current) != 0) level = PyLong_AsLong(current);
  Py_END_CRITICAL_SECTION();
  return level < 0 && kernels_are_ours();
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

// One tensor, or those of a list or tuple. A list belongs to the caller, who may change it while a mode's Python code
// or another thread runs, so the call goes on with a tuple of what it holds at first.
class Tensors {
 public:
  Tensors(PyObject* argument, bool several) : one_(several ? nullptr : argument) {
    if (several && PyList_CheckExact(argument) != 0) tuple_ = Object(PyList_AsTuple(argument));
    if (several && is_plain_tuple(argument)) tuple_ = Object(Py_NewRef(argument));
  }
  PyObject* argument() const { return one_ != nullptr ? one_ : tuple_.get(); }
  Py_ssize_t size() const { return one_ != nullptr ? 1 : tuple_ ? PyTuple_Size(tuple_.get()) : 0; }
  PyObject* operator[](Py_ssize_t k) const { return one_ != nullptr ? one_ : PyTuple_GetItem(tuple_.get(), k); }
  bool plain() const {
    for (Py_ssize_t k = 0; k < size(); ++k)
      if (!is_plain((*this)[k])) return false;
    return size() > 0;
  }
  // The first that requires grad, null where none does.
  PyObject* requiring_grad() const {
    for (Py_ssize_t k = 0; k < size(); ++k)
      if (requires_grad((*this)[k])) return (*this)[k];
    return nullptr;
  }

 private:
  PyObject* one_;
  Object tuple_;
};

// A new handle of a tensor, to be deleted or given away; null if that fails.
AtenTensorHandle handle_of(PyObject* tensor) {
  AtenTensorHandle handle = nullptr;
  if (torch_tensor_from_pyobject != nullptr)
    return torch_tensor_from_pyobject(tensor, &handle) == TORCH_SUCCESS ? handle : nullptr;
  const Object capsule(PyObject_CallFunctionObjArgs(torch_.to_capsule, tensor, nullptr));
  if (!capsule) return nullptr;
  return static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get())));
}

// Whether a library has kernels for this tensor.
bool has_kernels(AtenTensorHandle tensor) {
  int32_t device = 0, layout = 0;
  if (tensor == nullptr || aoti_torch_get_device_type(tensor, &device) != TORCH_SUCCESS ||
      aoti_torch_get_layout(tensor, &layout) != TORCH_SUCCESS || layout != aoti_torch_layout_strided())
    return false;
  return (device == aoti_torch_device_type_cpu() && cpu_call != nullptr) ||
         (device == aoti_torch_device_type_cuda() && cuda_call != nullptr);
}

// Leaves a FastCall where the libraries look for theirs. In all of them: a CUDA tensor's call gets to a kernel of the
// CPU's library where a mode for dispatch is at work, and a CPU tensor's to one for CUDA where another argument is
// there. One that found none would throw, and torch writes to stderr what is thrown.
void leave_to_libraries(FastCall* call) {
  if (cpu_call != nullptr) *cpu_call() = call;
  if (cuda_call != nullptr) *cuda_call() = call;
}

// Python's tensor for a handle, of which it takes ownership; null after an error.
PyObject* wrapped(AtenTensorHandle handle) {
  PyObject* result = nullptr;
  if (torch_tensor_to_pyobject != nullptr) {
    void* object = nullptr;
    torch_tensor_to_pyobject(handle, nullptr, &object);
    result = static_cast<PyObject*>(object);
  } else {
    const Object capsule(PyCapsule_New(handle, nullptr, nullptr));
    if (capsule) result = PyObject_CallFunctionObjArgs(torch_.from_capsule, capsule.get(), nullptr);
    if (capsule && is_true(torch_.takes_ownership)) return result;
  }
  aoti_torch_delete_tensor_object(handle);
  return result;
}

// Python's list of tensors by their handles, of which it takes ownership; null after an error.
template <class HandleAt>
PyObject* wrapped_list(std::size_t count, HandleAt handle_at) {
  Object result(PyList_New(Py_ssize_t(count)));
  for (std::size_t k = 0; k < count; ++k) {
    Object tensor(wrapped(handle_at(k)));
    if (!tensor) result = Object();
    if (result) PyList_SetItem(result.get(), Py_ssize_t(k), tensor.release());
  }
  return result.release();
}

// The tensors of a call, or lists of them, and what the call returns. The dispatcher takes ownership of what is sent to
// it; what was not sent is deleted here.
class Stack {
 public:
  Stack() = default;
  Stack(const Stack&) = delete;
  ~Stack() {
    while (size_ > 0) {
      if (tensors_[--size_] == kNoList) {
        aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(values_[size_]));
        continue;
      }
      const auto list = stable::to<StableListHandle>(values_[size_]);
      for (std::size_t k = 0; k < tensors_[size_]; ++k) aoti_torch_delete_tensor_object(item(list, k));
      torch_delete_list(list);
    }
  }

  // These return false if something has no handle.
  bool push(AtenTensorHandle handle) {
    if (handle != nullptr) add(stable::from(handle), kNoList);
    return handle != nullptr;
  }
  bool push(PyObject* tensor) { return push(handle_of(tensor)); }
  bool push_each(const Tensors& tensors) {
    for (Py_ssize_t k = 0; k < tensors.size(); ++k)
      if (!push(tensors[k])) return false;
    return true;
  }
  bool push_list(const Tensors& tensors) {
    const StableListHandle list = add_list(tensors.size());
    for (Py_ssize_t k = 0; list != nullptr && k < tensors.size(); ++k) {
      const AtenTensorHandle handle = handle_of(tensors[k]);
      if (handle == nullptr) return false;
      torch_list_push_back(list, stable::from(handle));
      ++tensors_[size_ - 1];
    }
    return list != nullptr;
  }
  bool push_list(std::span<const int64_t> numbers) {
    const StableListHandle list = add_list(Py_ssize_t(numbers.size()));
    for (std::size_t k = 0; list != nullptr && k < numbers.size(); ++k)
      torch_list_push_back(list, stable::from(numbers[k]));
    return list != nullptr;
  }

  std::size_t size() const { return size_; }
  // Of argument k, the tensor or the first one of the list.
  AtenTensorHandle tensor(std::size_t k) const {
    if (tensors_[k] == kNoList) return stable::to<AtenTensorHandle>(values_[k]);
    return item(stable::to<StableListHandle>(values_[k]), 0);
  }

  // Calls an operator; false if that failed.
  bool call(const char* name, const char* overload) {
    size_ = 0;
    PyThreadState* const thread = PyEval_SaveThread();
    const AOTITorchError error = aoti_torch_call_dispatcher(name, overload, values_);
    PyEval_RestoreThread(thread);
    return error == TORCH_SUCCESS;
  }
  // The same for an overload that takes its numbers from a FastCall.
  bool call(const char* name, const char* overload, FastCall& fast) {
    leave_to_libraries(&fast);
    const bool done = call(name, overload);
    leave_to_libraries(nullptr);
    return done;
  }

  // Results in Python; null after an error.
  PyObject* result() const { return wrapped(stable::to<AtenTensorHandle>(values_[0])); }
  PyObject* results(std::size_t count) const {
    return wrapped_list(count, [&](std::size_t k) { return stable::to<AtenTensorHandle>(values_[k]); });
  }
  PyObject* result_list() const {
    const auto list = stable::to<StableListHandle>(values_[0]);
    std::size_t count = 0;
    torch_list_size(list, &count);
    PyObject* const tensors = wrapped_list(count, [&](std::size_t k) { return item(list, k); });
    torch_delete_list(list);
    return tensors;
  }

 private:
  static constexpr std::size_t kNoList = std::size_t(-1);

  static AtenTensorHandle item(StableListHandle list, std::size_t k) {
    StableIValue value = 0;
    return torch_list_get_item(list, k, &value) == TORCH_SUCCESS ? stable::to<AtenTensorHandle>(value) : nullptr;
  }
  void add(StableIValue value, std::size_t tensors) {
    tensors_[size_] = tensors;
    values_[size_++] = value;
  }
  StableListHandle add_list(Py_ssize_t capacity) {
    StableListHandle list = nullptr;
    if (torch_new_list_reserve_size(std::size_t(capacity), &list) != TORCH_SUCCESS) return nullptr;
    add(stable::from(list), 0);
    return list;
  }

  static constexpr std::size_t kMost = kMostArguments + kMostFew;  // none of the numbers, few tensors instead of a list

  StableIValue values_[kMost];
  std::size_t tensors_[kMost];  // of each list; or kNoList
  std::size_t size_ = 0;
};

// Room for one more list of the call, of so many numbers; null where it is too long. There are as many lists as an
// operator has arguments after the first, at most.
int64_t* new_list(FastCall& call, Py_ssize_t count) {
  if (call.lists == 0) call.begin[0] = 0;
  const int64_t begin = call.begin[call.lists];
  if (begin + count > FastCall::kMostNumbers) return nullptr;
  call.begin[++call.lists] = begin + count;
  return call.numbers + begin;
}

bool read_number(PyObject* number, int64_t& value) {
  int overflow = 0;
  if (PyLong_CheckExact(number) == 0) return false;
  value = PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow == 0;
}

// Appends a list of ints to the call's lists; returns false if it is not a list or tuple of plain ints, or is too long.
bool read_list(PyObject* list, FastCall& call) {
  const bool is_list = PyList_CheckExact(list) != 0;
  if (!is_list && !is_plain_tuple(list)) return false;
  bool plain = false;
  Py_BEGIN_CRITICAL_SECTION(list);
  const Py_ssize_t count = is_list ? PyList_Size(list) : PyTuple_Size(list);
  int64_t* const numbers = new_list(call, count);
  plain = numbers != nullptr;
  for (Py_ssize_t k = 0; plain && k < count; ++k)
    plain = read_number(is_list ? PyList_GetItem(list, k) : PyTuple_GetItem(list, k), numbers[k]);
  Py_END_CRITICAL_SECTION();
  return plain;
}

// The function of a library, whose path an attribute of set_up's argument is, that says where its operators look for
// the numbers of a call; null if the path is None, and after an error.
FastCall** (*function_of_library(PyObject* torch, const char* attribute))() {
  const Object path(PyObject_GetAttrString(torch, attribute));
  if (!path || path.get() == Py_None) return nullptr;
  const Object encoded(PyUnicode_EncodeFSDefault(path.get()));
  const char* name = encoded ? PyBytes_AsString(encoded.get()) : nullptr;
  if (name == nullptr) return nullptr;
  void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  void* const function = library != nullptr ? dlsym(library, "torch_dml_ops_fast_call") : nullptr;
  if (function == nullptr) PyErr_Format(PyExc_ImportError, "%U is not a loaded library of operators", path.get());
  return reinterpret_cast<FastCall** (*)()>(function);
}

// set_up(torch): an object with what Torch has, and the paths of the libraries. Nothing is taken from it unless all is
// right. (What it takes the place of stays in memory: another thread may be in a call.)
PyObject* set_up(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1) return PyErr_Format(PyExc_TypeError, "set_up takes 1 argument, got %zd", count);
  std::vector<PyObject*> given;
  for (const Member* member : Member::all) {
    PyObject* const object = given.emplace_back(PyObject_GetAttrString(arguments[0], member->name));
    if (object == nullptr) return nullptr;
    if (member->type == nullptr ? PyCallable_Check(object) == 0 : PyObject_TypeCheck(object, member->type) == 0)
      return PyErr_Format(PyExc_TypeError, "set_up: %s must not be %R", member->name, object);
  }
  const auto given_cpu_call = function_of_library(arguments[0], "cpu_library");
  const auto given_cuda_call = given_cpu_call != nullptr ? function_of_library(arguments[0], "cuda_library") : nullptr;
  if (PyErr_Occurred() != nullptr) return nullptr;
  for (std::size_t k = 0; k < given.size(); ++k) Member::all[k]->object = given[k];
  cpu_call = given_cpu_call;
  cuda_call = given_cuda_call;
  Py_RETURN_NONE;
}

}  // namespace
}  // namespace torch_dml_ops::python
