// A short way from Python to the operators, for plain tensors.
//
// `functions_of` makes a function for each operator, which takes its arguments and `out` or None, and returns its
// result. It returns None if the call is not plain (a subclass, a mode, a transform or tracing is involved, or numbers
// are not plain ints) or if the operator refuses it. The caller then makes the call in the ordinary way, which converts
// the numbers or says what is wrong. torch_dml_ops/_torch/short_way.py is the Python side.
//
// The tensors go through the dispatcher to the overload `fast` of each operator, which takes its numbers from a
// FastCall. So what the dispatcher handles (conjugated views and functional tensors as inputs, for example) works as
// usual, and the profiler sees the call. As `out`, `fast_out` refuses such views.
#include "plain.inl"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index.inl"

namespace torch_dml_ops::python {
namespace {

PyObject* not_plain = nullptr;  // what a recorder raises if the call has to be made in the ordinary way

enum class Kind : char { kTensor = 'T', kNumber = 'n', kNumbers = 'N', kNumbersOrNone = '?' };

// What its schema says of an operator. The first argument is a tensor or a list of them.
struct Schema {
  std::string name;  // with its namespace
  std::string title;
  bool takes_list = false;
  bool gives_list = false;
  std::vector<Kind> others;      // the arguments after the first
  std::vector<PyObject*> names;  // of all arguments, `out` last
  PyObject* recorder = nullptr;  // makes a call that needs a derivative: of the numbers, and of all tensors
  PyMethodDef functions[3], in_place_of;

  std::size_t arguments() const { return 1 + others.size(); }
  Py_ssize_t constants() const { return std::count(others.begin(), others.end(), Kind::kTensor); }
};

// Appends the numbers of a call to it; false if they, or tensors among the arguments after the first, are not plain.
bool read_others(const Schema& op, PyObject* const* arguments, FastCall& call) {
  for (const Kind kind : op.others) {
    PyObject* const argument = *++arguments;
    if (kind == Kind::kTensor) {
      if (!is_plain(argument)) return false;
    } else if (kind == Kind::kNumber) {
      int64_t* const number = new_list(call, 1);
      if (number == nullptr || !read_number(argument, *number)) return false;
    } else if (kind == Kind::kNumbersOrNone && argument == Py_None) {
      call.missing |= 1u << call.lists;
      if (new_list(call, 0) == nullptr) return false;
    } else if (!read_list(argument, call)) {
      return false;
    }
  }
  return true;
}

bool push_others(const Schema& op, PyObject* const* arguments, Stack& stack) {
  for (std::size_t k = 0; k < op.others.size(); ++k)
    if (op.others[k] == Kind::kTensor && !stack.push(arguments[1 + k])) return false;
  return true;
}

PyObject* tuple_of(std::span<const int64_t> numbers) {
  Object result(PyTuple_New(Py_ssize_t(numbers.size())));
  for (std::size_t k = 0; result && k < numbers.size(); ++k) {
    PyObject* number = PyLong_FromLongLong(numbers[k]);
    if (number == nullptr) return nullptr;
    PyTuple_SetItem(result.get(), Py_ssize_t(k), number);
  }
  return result.release();
}

// The numbers of a call as a recorded call keeps them: as they were read, whatever becomes of the caller's lists. Null
// after an error.
Object numbers_of(const Schema& op, const FastCall& call) {
  Object result(PyTuple_New(call.lists));
  int list = 0;
  for (const Kind kind : op.others) {
    if (!result || kind == Kind::kTensor) continue;
    PyObject* const kept = !call.has(list)         ? Py_NewRef(Py_None)
                           : kind == Kind::kNumber ? PyLong_FromLongLong(call.list(list)[0])
                                                   : tuple_of(call.list(list));
    if (kept == nullptr) return Object();
    PyTuple_SetItem(result.get(), list++, kept);
  }
  return result;
}

constexpr const char* kFew[] = {"fast_2", "fast_3", "fast_4"};
static_assert(std::size(kFew) == kMostFew - kLeastFew + 1);

// The result of the overload `fast`, or of one for few tensors. An operator that gives a list gives as many tensors as
// its first list has numbers.
PyObject* result_of(const Schema& op, const Tensors& inputs, PyObject* const* arguments, FastCall& fast) {
  const std::size_t several = op.takes_list == op.gives_list ? 0
                              : op.takes_list                ? std::size_t(inputs.size())
                              : fast.lists > 0               ? fast.list(0).size()
                                                             : 0;
  const bool few = several >= kLeastFew && several <= kMostFew;
  Stack stack;
  if (!(op.takes_list && !few ? stack.push_list(inputs) : stack.push_each(inputs))) return fall_back();
  if (!has_kernels(stack.tensor(0)) || !push_others(op, arguments, stack)) return fall_back();
  if (!stack.call(op.name.c_str(), few ? kFew[several - kLeastFew] : "fast", fast)) return fall_back();
  Object result(!op.gives_list ? stack.result() : few ? stack.results(several) : stack.result_list());
  return fast.refused ? fall_back() : result.release();
}

// Whether `out` is plain, needs no derivative, and may be written to.
bool writable(PyObject* out, bool grad_mode) {
  return is_plain(out) && !(grad_mode && requires_grad(out)) && !answers_true(out, names.is_inference);
}

// Calls the overload `fast_out`, and returns `out`.
PyObject* written(const Schema& op, const Tensors& inputs, PyObject* const* arguments, PyObject* given,
                  FastCall& fast) {
  const Tensors out(given, op.gives_list);
  if (!out.plain() || !nothing_else_at_work()) return fall_back();
  const bool grad_mode = aoti_torch_grad_mode_is_enabled();
  if (grad_mode && inputs.requiring_grad() != nullptr) return fall_back_unless_interrupted();
  for (Py_ssize_t k = 0; k < out.size(); ++k)
    if (!writable(out[k], grad_mode)) return fall_back_unless_interrupted();
  Stack stack;
  if (!(op.takes_list ? stack.push_list(inputs) : stack.push_each(inputs))) return fall_back();
  if (!has_kernels(stack.tensor(0)) || !push_others(op, arguments, stack)) return fall_back();
  const std::size_t place = stack.size();
  if (!(op.gives_list ? stack.push_list(out) : stack.push_each(out)) || !has_kernels(stack.tensor(place)))
    return fall_back();
  if (!stack.call(op.name.c_str(), "fast_out", fast) || fast.refused) return fall_back();
  if (says_true(torch_.is_excluded, torch_.version_key))  // it was counted, further out
    return PyErr_Occurred() == nullptr ? Py_NewRef(given) : nullptr;
  const Object tensors(op.gives_list ? Py_NewRef(out.argument()) : PyTuple_Pack(1, given));
  const Object done(PyObject_CallFunctionObjArgs(torch_.increment_version, tensors.get(), nullptr));
  return done ? Py_NewRef(given) : nullptr;
}

// Makes a call that autograd records, as `requiring_grad` requires grad.
PyObject* record(const Schema& op, PyObject* requiring_grad, const Tensors& inputs, PyObject* const* arguments,
                 const FastCall& call) {
  // Below autograd, as in __torch_dispatch__, there is nothing to record; nor of a transform that has ended.
  if (!nothing_in_the_dispatcher() || says_true(torch_.is_excluded, torch_.autograd_key) ||
      says_true(torch_.is_wrapped, requiring_grad))
    return fall_back();
  const Object given(PyTuple_New(1 + inputs.size() + op.constants()));
  Object numbers = numbers_of(op, call);
  if (!given || !numbers) return nullptr;
  Py_ssize_t count = 0;
  PyTuple_SetItem(given.get(), count++, numbers.release());
  for (Py_ssize_t k = 0; k < inputs.size(); ++k) PyTuple_SetItem(given.get(), count++, Py_NewRef(inputs[k]));
  for (std::size_t k = 0; k < op.others.size(); ++k)
    if (op.others[k] == Kind::kTensor) PyTuple_SetItem(given.get(), count++, Py_NewRef(arguments[1 + k]));
  Object results(PyObject_CallObject(op.recorder, given.get()));
  if (!results) return PyErr_ExceptionMatches(not_plain) != 0 ? fall_back() : nullptr;
  return op.gives_list ? PySequence_List(results.get()) : results.release();  // autograd makes a tuple of several
}

// Calls the operator. The last argument is `out`, or None.
PyObject* called(const Schema& op, PyObject* const* arguments) {
  PyObject* out = arguments[op.arguments()];
  const Tensors inputs(arguments[0], op.takes_list);
  FastCall fast;
  if (!inputs.plain() || !read_others(op, arguments, fast)) return fall_back();
  if (out != Py_None) return written(op, inputs, arguments, out, fast);
  if (!nothing_else_at_work()) return fall_back();
  PyObject* requiring_grad = aoti_torch_grad_mode_is_enabled() ? inputs.requiring_grad() : nullptr;
  if (requiring_grad == nullptr) return result_of(op, inputs, arguments, fast);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return record(op, requiring_grad, inputs, arguments, fast);
}

// Python's capsules around what its functions are called with, by these names.
constexpr char kSchema[] = "torch_dml_ops.Schema", kReplaced[] = "torch_dml_ops.Replaced";

template <class T>
T& within(PyObject* capsule, const char* name) {
  return *static_cast<T*>(PyCapsule_GetPointer(capsule, name));
}

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const auto& op = within<Schema>(self, kSchema);
  return count == Py_ssize_t(op.arguments()) + 1 ? called(op, arguments) : fall_back();
}

// What a recorder calls, with what it was given: the numbers, the inputs and the constants. Autograd takes a tuple of
// several results.
PyObject* call_recorded(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  const auto& op = within<Schema>(self, kSchema);
  const Py_ssize_t inputs = count - 1 - op.constants(), numbers = Py_ssize_t(op.others.size()) - op.constants();
  if (inputs < 1 || (!op.takes_list && inputs > 1) || !is_plain_tuple(given[0]) || PyTuple_Size(given[0]) != numbers)
    return fall_back();
  const Object list(op.takes_list ? PyTuple_New(inputs) : Py_NewRef(given[1]));
  for (Py_ssize_t k = 0; op.takes_list && list && k < inputs; ++k)
    PyTuple_SetItem(list.get(), k, Py_NewRef(given[1 + k]));
  if (!list) return nullptr;
  PyObject* arguments[kMostArguments] = {list.get()};
  Py_ssize_t number = 0, constant = 1 + inputs;
  for (std::size_t k = 0; k < op.others.size(); ++k)
    arguments[1 + k] = op.others[k] == Kind::kTensor ? given[constant++] : PyTuple_GetItem(given[0], number++);
  const Tensors linear(list.get(), op.takes_list);
  FastCall fast;
  if (!linear.plain() || !read_others(op, arguments, fast)) return fall_back();
  Object results(result_of(op, linear, arguments, fast));
  return op.gives_list && results && results.get() != Py_None ? PyList_AsTuple(results.get()) : results.release();
}

// Torch's own function in a packet or an overload (their `_op`), in whose place another one stands.
struct Replaced {
  const Schema* op;
  PyObject* original;
  bool takes_out, takes_no_out;
};

// Calls the original if the call is not plain. As there, a call with `out` returns nothing.
PyObject* in_place_of(PyObject* self, PyObject* positional, PyObject* named) {
  const auto& [op, original, takes_out, takes_no_out] = within<Replaced>(self, kReplaced);
  const auto out = Py_ssize_t(op->arguments());
  PyObject* given[kMostArguments] = {};
  Object kept[kMostArguments];  // the dictionary belongs to the caller
  const Py_ssize_t count = PyTuple_Size(positional);
  for (Py_ssize_t k = 0; k < count && k < out; ++k) given[k] = PyTuple_GetItem(positional, k);
  Py_ssize_t left = 0;
  Py_BEGIN_CRITICAL_SECTION(named == nullptr ? positional : named);
  left = named == nullptr ? 0 : PyDict_Size(named);
  for (Py_ssize_t k = count; k <= out && left > 0; ++k) {
    given[k] = PyDict_GetItemWithError(named, op->names[std::size_t(k)]);
    kept[k] = Object(Py_XNewRef(given[k]));
    left -= given[k] != nullptr;
  }
  Py_END_CRITICAL_SECTION();
  const bool with_out = given[out] != nullptr;
  bool right = count <= out && left == 0 && (with_out ? takes_out && given[out] != Py_None : takes_no_out);
  if (!with_out) given[out] = Py_None;
  for (Py_ssize_t k = 0; k < out; ++k) {
    if (given[k] == nullptr && k > 0 && op->others[std::size_t(k - 1)] == Kind::kNumbersOrNone) given[k] = Py_None;
    right = right && given[k] != nullptr;
  }
  if (right) {
    Object result(called(*op, given));
    if (result.get() != Py_None) return with_out && result ? Py_NewRef(Py_None) : result.release();
  }
  PyErr_Clear();
  return PyObject_Call(original, positional, named);
}

// window(shape, index): the result of torch_dml_ops.window for sizes that are ints and slices of ints or None that
// select something; None for everything else.
PyObject* window(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain_tuple(arguments[0])) return fall_back();
  FastCall shape, call;
  Index index(arguments[1]);
  if (!read_list(arguments[0], shape) || !index.plain() || !index.slices_alone() ||
      std::ranges::any_of(shape.list(0), [](int64_t size) { return size < 0; }) ||
      !index.read(shape.numbers, shape.begin[1], call))
    return fall_back();
  const Object offsets(tuple_of(call.list(0))), sizes(tuple_of(call.list(1))), strides(tuple_of(call.list(2)));
  if (!offsets || !sizes || !strides) return nullptr;
  return PyTuple_Pack(3, offsets.get(), sizes.get(), strides.get());
}

// A tensor of these sizes in place of the one on the stack, as torch_dml_ops._indexing.index.reshaped makes it.
PyObject* reshaped(Stack& stack, std::span<const int64_t> sizes) {
  return stack.push_list(sizes) && stack.call("aten::_unsafe_view", "") ? stack.result() : fall_back();
}

// index(input, index), a function of slice1: the result of torch_dml_ops.index(input)[index] if all is plain and
// something is selected; None for everything else.
PyObject* index(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain(arguments[0])) return fall_back();
  const auto& slice1 = within<Schema>(self, kSchema);
  Index index(arguments[1]);
  if (!index.plain() || !nothing_else_at_work()) return fall_back();
  FastCall call;
  Stack stack;
  int64_t rank = 0, *sizes = nullptr;
  if (!stack.push(arguments[0]) || !has_kernels(stack.tensor(0)) ||
      aoti_torch_get_dim(stack.tensor(0), &rank) != TORCH_SUCCESS ||
      aoti_torch_get_sizes(stack.tensor(0), &sizes) != TORCH_SUCCESS || !index.read(sizes, rank, call))
    return fall_back();
  if (aoti_torch_grad_mode_is_enabled() && requires_grad(arguments[0])) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Object result(record(slice1, arguments[0], Tensors(arguments[0], false), arguments, call));
    if (!result || result.get() == Py_None || index.slices_alone()) return result.release();
    Stack recorded;
    return recorded.push(result.get()) ? reshaped(recorded, call.list(3)) : fall_back();
  }
  if (!stack.call(slice1.name.c_str(), "fast", call)) return fall_back();
  if (call.refused || index.slices_alone()) {
    Object result(stack.result());
    return call.refused ? fall_back() : result.release();
  }
  stack.push(stack.tensor(0));  // the result
  return reshaped(stack, call.list(3));
}

using Function = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef method(const char* name, Function function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

PyObject* new_function(PyMethodDef* method, void* within, const char* name, PyObject* module_name = nullptr) {
  const Object capsule(PyCapsule_New(within, name, nullptr));
  return capsule ? PyCFunction_NewEx(method, capsule.get(), module_name) : nullptr;
}

// functions_of(name, arguments, gives_list, recorder, packet, default, out): the functions of an operator. It has this
// name, with its namespace, and these arguments, each a pair of a name and a kind, `out` left out; "TT" is a list of
// tensors. The last three are torch's own functions, of its packet and its overloads. A tuple:
//   what tries the short way, what a recorder calls, and, if the operator takes a window, what takes an index instead,
//   and three that try the short way before they call torch's own.
// (The operator stays in memory, as what set_up takes the place of: another thread may be in a call.)
PyObject* functions_of(PyObject*, PyObject* positional) {
  const char *name = nullptr, *argument = nullptr, *kind = nullptr;
  PyObject *arguments = nullptr, *originals[3];
  int gives_list = 0;
  auto op = std::make_unique<Schema>();
  if (PyArg_ParseTuple(positional, "sO!pOOOO", &name, &PyTuple_Type, &arguments, &gives_list, &op->recorder,
                       &originals[0], &originals[1], &originals[2]) == 0)
    return nullptr;
  op->name = name;
  op->title = op->name.substr(op->name.rfind(':') + 1);
  op->gives_list = gives_list != 0;
  for (Py_ssize_t k = 0; k < PyTuple_Size(arguments); ++k) {
    PyObject* const pair = PyTuple_GetItem(arguments, k);
    if (PyTuple_Check(pair) == 0) return PyErr_Format(PyExc_TypeError, "%s: %R is not a name and a kind", name, pair);
    if (PyArg_ParseTuple(pair, "ss", &argument, &kind) == 0) return nullptr;
    op->names.push_back(PyUnicode_InternFromString(argument));
    if (k == 0)
      op->takes_list = kind == std::string_view("TT");
    else
      op->others.push_back(Kind(kind[0]));
  }
  op->names.push_back(PyUnicode_InternFromString("out"));
  if (op->names.size() < 2 || op->names.size() > kMostArguments)
    return PyErr_Format(PyExc_ValueError, "%s must have from 1 to %zd arguments", name, kMostArguments - 1);
  op->functions[0] = method(op->title.c_str(), call);
  op->functions[1] = method(op->title.c_str(), call_recorded);
  op->functions[2] = method("index", index);
  const PyCFunctionWithKeywords with_names = in_place_of;
  op->in_place_of = {op->title.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(with_names)),
                     METH_VARARGS | METH_KEYWORDS, nullptr};
  const bool has_window =
      op->others == std::vector{Kind::kNumbers, Kind::kNumbers, Kind::kNumbers, Kind::kNumbersOrNone};
  Object result(PyTuple_New(6));
  Schema* const kept = op.release();
  Py_INCREF(kept->recorder);
  for (int k = 0; result && k < 6; ++k) {
    PyObject* function = nullptr;
    if (k < 3) {
      function = k < 2 || has_window ? new_function(&kept->functions[k], kept, kSchema) : Py_NewRef(Py_None);
    } else if (const Object module_name(PyObject_GetAttrString(originals[k - 3], "__module__")); module_name) {
      auto* const replaced = new Replaced{kept, Py_NewRef(originals[k - 3]), k != 4, k != 5};
      function = new_function(&kept->in_place_of, replaced, kReplaced, module_name.get());
    }
    if (function == nullptr) return nullptr;
    PyTuple_SetItem(result.get(), k, function);
  }
  return result.release();
}

PyMethodDef methods[] = {method("set_up", set_up),
                         {"functions_of", functions_of, METH_VARARGS, nullptr},
                         method("window", window),
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef module{PyModuleDef_HEAD_INIT, "_fast_calls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace torch_dml_ops::python

PyMODINIT_FUNC PyInit__fast_calls() {
  using namespace torch_dml_ops::python;
  not_plain = PyErr_NewException("torch_dml_ops._fast_calls.NotPlain", nullptr, nullptr);
  const Object made(not_plain != nullptr && make_names() ? PyModule_Create(&module) : nullptr);
#ifdef Py_GIL_DISABLED
  if (made) PyUnstable_Module_SetGIL(made.get(), Py_MOD_GIL_NOT_USED);
#endif
  return made && PyModule_AddObjectRef(made.get(), "NotPlain", not_plain) == 0 ? Py_NewRef(made.get()) : nullptr;
}
