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
#include "plain.inl"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "index.inl"

namespace torch_dml_ops::python {
namespace {

// For each operator, what records a call that needs a derivative: a subclass of autograd.Function.
struct Recorder {
  PyObject* apply;  // its `apply`: of the tensor and a tuple of the other arguments, or of that tuple and the tensors
  PyObject* transposed;  // its `transposed`, for cotangents that are not plain
};
Recorder recorders[5] = {};
PyObject* not_plain = nullptr;  // what `forward` raises if the call has to be made in the ordinary way

// The number of a tuple's items; -1 of what is no tuple that can be read by index.
Py_ssize_t size_of_tuple(PyObject* object) {
  return object != nullptr && is_plain_tuple(object) ? PyTuple_Size(object) : -1;
}

// The operators. Each function is called with the arguments of the Python function in their order: the first argument
// (a tensor, or a list of them), the sequence lengths if there are any, the lists of numbers, and the axis.

constexpr int kMostArguments = 6;  // with `out`

struct Signature {
  int number;  // its index in `recorders`
  const char* name;
  const char* arguments[kMostArguments];  // their names, `out` last
  int lists = 0;                          // how many lists of numbers it takes
  bool last_optional = false;
  bool has_axis = false;
  bool has_lengths = false;  // a tensor of sequence lengths
  bool takes_list = false;   // of tensors, as its first argument
  bool gives_list = false;   // of tensors, as its result
  bool makes_larger = false;
};

constexpr Signature kSlice1{
    .number = 0,
    .name = "torch_dml_ops::slice1",
    .arguments = {"input", "window_offsets", "window_sizes", "window_strides", "output_sizes", "out"},
    .lists = 4,
    .last_optional = true};
constexpr Signature kSliceGrad{
    .number = 1,
    .name = "torch_dml_ops::slice_grad",
    .arguments = {"grad_output", "input_sizes", "window_offsets", "window_sizes", "window_strides", "out"},
    .lists = 4,
    .makes_larger = true};
constexpr Signature kSplit{.number = 2,
                           .name = "torch_dml_ops::split",
                           .arguments = {"input", "split_sizes", "axis", "out"},
                           .lists = 1,
                           .has_axis = true,
                           .gives_list = true};
constexpr Signature kJoin{.number = 3,
                          .name = "torch_dml_ops::join",
                          .arguments = {"inputs", "axis", "out"},
                          .has_axis = true,
                          .takes_list = true};
constexpr Signature kReverse{.number = 4,
                             .name = "torch_dml_ops::reverse_subsequences",
                             .arguments = {"input", "sequence_lengths", "axis", "out"},
                             .has_axis = true,
                             .has_lengths = true};
constexpr const Signature* kSignatures[] = {&kSlice1, &kSliceGrad, &kSplit, &kJoin, &kReverse};

constexpr const char* title_of(const Signature& s) { return s.name + std::string_view("torch_dml_ops::").size(); }
constexpr Py_ssize_t arguments_of(const Signature& s) { return 1 + s.has_lengths + s.lists + s.has_axis; }

bool read_numbers(const Signature& shape, PyObject* const* arguments, FastCall& call) {
  PyObject* const* next = arguments + 1 + shape.has_lengths;
  for (int k = 0; k < shape.lists; ++k, ++next) {
    if (shape.last_optional && k + 1 == shape.lists && *next == Py_None) continue;
    if (!read_list(*next, call)) return false;
  }
  return !shape.has_axis || read_axis(*next, call);
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

// The arguments after the first, as a recorded call keeps them: with the numbers that were read, whatever becomes of
// the caller's lists. Null after an error.
Object others_of(const Signature& shape, PyObject* lengths, const FastCall& call) {
  Object result(PyTuple_New(arguments_of(shape) - 1));
  Py_ssize_t count = 0;
  const auto add = [&](PyObject* argument) {
    if (argument == nullptr) result = Object(nullptr);
    if (result) PyTuple_SetItem(result.get(), count++, argument);
  };
  if (shape.has_lengths) add(Py_NewRef(lengths));
  for (int k = 0; k < call.lists; ++k) add(tuple_of(call.list(k)));
  if (call.lists < shape.lists) add(Py_NewRef(Py_None));
  if (shape.has_axis) add(PyLong_FromLongLong(call.axis));
  return result;
}

// Of two to four tensors, each is an argument or a result of its own in overloads of these names. The dispatcher takes
// lists apart and makes new ones, which costs a tenth of a small call.
constexpr const char* kFew[] = {nullptr, nullptr, "fast_2", "fast_3", "fast_4"};

// The result of the overload `fast`, or of one of those.
template <const Signature& s>
PyObject* result_of(const Tensors& inputs, PyObject* const* arguments, FastCall& fast) {
  const std::size_t several = s.takes_list ? std::size_t(inputs.size()) : s.gives_list ? fast.list(0).size() : 0;
  const char* const few = several < std::size(kFew) ? kFew[several] : nullptr;
  Stack stack;
  if (!(s.takes_list && few == nullptr ? stack.push_list(inputs) : stack.push_each(inputs))) return fall_back();
  FastCall** slot = slot_for(stack.tensor(0));
  if (slot == nullptr || (s.has_lengths && !stack.push(arguments[1]))) return fall_back();
  if (!stack.call(s.name, few != nullptr ? few : "fast", !s.makes_larger && stack.brief(), fast, slot))
    return fall_back();
  Object result(!s.gives_list ? stack.result() : few != nullptr ? stack.results(several) : stack.result_list());
  return fast.refused ? fall_back() : result.release();
}

// Whether `out` is plain, needs no derivative, and may be written to.
bool writable(PyObject* out, bool grad_mode) {
  return is_plain(out) && !(grad_mode && requires_grad(out)) && !answers_true(out, names.is_inference);
}

// Calls the overload `fast_out`, and returns `out`.
template <const Signature& s>
PyObject* written(const Tensors& inputs, PyObject* const* arguments, PyObject* given, FastCall& fast) {
  const Tensors out(given, s.gives_list);
  if (!out.plain() || !nothing_else_at_work()) return fall_back();
  const bool grad_mode = aoti_torch_grad_mode_is_enabled();
  if (grad_mode && inputs.requiring_grad() != nullptr) return fall_back_unless_interrupted();
  for (Py_ssize_t k = 0; k < out.size(); ++k)
    if (!writable(out[k], grad_mode)) return fall_back_unless_interrupted();
  Stack stack;
  if (!(s.takes_list ? stack.push_list(inputs) : stack.push_each(inputs))) return fall_back();
  FastCall** slot = slot_for(stack.tensor(0));
  if (slot == nullptr || (s.has_lengths && !stack.push(arguments[1])) ||
      !(s.gives_list ? stack.push_list(out) : stack.push_each(out)) ||
      slot_for(stack.tensor(1 + s.has_lengths)) == nullptr)
    return fall_back();
  if (!stack.call(s.name, "fast_out", stack.brief(), fast, slot) || fast.refused) return fall_back();
  if (says_true(torch_.is_excluded, torch_.version_key))  // it was counted, further out
    return PyErr_Occurred() == nullptr ? Py_NewRef(given) : nullptr;
  const Object tensors(s.gives_list ? Py_NewRef(out.argument()) : PyTuple_Pack(1, given));
  const Object done(PyObject_CallFunctionObjArgs(torch_.increment_version, tensors.get(), nullptr));
  return done ? Py_NewRef(given) : nullptr;
}

// Makes a call that autograd records, as `requiring_grad` requires grad. `first` is a tensor, or a tuple of them.
PyObject* record(const Signature& shape, PyObject* requiring_grad, PyObject* first, PyObject* others) {
  const Recorder& recorder = recorders[shape.number];
  // Below autograd, as in __torch_dispatch__, there is nothing to record; nor of a transform that has ended.
  if (recorder.apply == nullptr || !nothing_in_the_dispatcher() || says_true(torch_.is_excluded, torch_.autograd_key) ||
      says_true(torch_.is_wrapped, requiring_grad))
    return fall_back();
  PyObject* results = nullptr;
  if (shape.takes_list) {
    const Object before(PyTuple_Pack(1, others));
    const Object arguments(before ? PySequence_Concat(before.get(), first) : nullptr);
    if (!arguments) return nullptr;
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
template <const Signature& shape>
PyObject* called(PyObject* const* arguments) {
  PyObject* out = arguments[arguments_of(shape)];
  const Tensors linear(arguments[0], shape.takes_list);
  if (!linear.plain() || (shape.has_lengths && !is_plain(arguments[1]))) return fall_back();
  FastCall fast;
  if (!read_numbers(shape, arguments, fast)) return fall_back();
  if (out != Py_None) return written<shape>(linear, arguments, out, fast);
  if (!nothing_else_at_work()) return fall_back();
  PyObject* requiring_grad = aoti_torch_grad_mode_is_enabled() ? linear.requiring_grad() : nullptr;
  if (requiring_grad == nullptr) return result_of<shape>(linear, arguments, fast);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const Object others = others_of(shape, shape.has_lengths ? arguments[1] : nullptr, fast);
  return others ? record(shape, requiring_grad, linear.argument(), others.get()) : nullptr;
}

template <const Signature& shape>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return count == arguments_of(shape) + 1 ? called<shape>(arguments) : fall_back();
}

// The names of each operator's arguments as Python strings.
PyObject* argument_names[std::size(kSignatures)][kMostArguments] = {};

bool make_argument_names() {
  for (const Signature* shape : kSignatures)
    for (Py_ssize_t k = 0; k <= arguments_of(*shape); ++k)
      if ((argument_names[shape->number][k] = PyUnicode_InternFromString(shape->arguments[k])) == nullptr) return false;
  return true;
}

// What takes the place of torch's own function in a packet or an overload (their `_op`), and calls that, `original`, if
// the call is not plain. As there, a call with `out` returns nothing.
template <const Signature& shape, bool takes_out, bool takes_no_out>
PyObject* in_place_of(PyObject* original, PyObject* positional, PyObject* named) {
  constexpr Py_ssize_t out = arguments_of(shape);
  PyObject* given[out + 1] = {};
  Object kept[out + 1];  // the dictionary belongs to the caller
  const Py_ssize_t count = PyTuple_Size(positional);
  Py_ssize_t left = named == nullptr ? 0 : PyDict_Size(named);
  for (Py_ssize_t k = 0; k < count && k < out; ++k) given[k] = PyTuple_GetItem(positional, k);
  for (Py_ssize_t k = count; k <= out && left > 0; ++k) {
    given[k] = PyDict_GetItemWithError(named, argument_names[shape.number][k]);
    if (given[k] == nullptr) continue;
    kept[k] = Object(Py_NewRef(given[k]));
    --left;
  }
  const bool with_out = given[out] != nullptr;
  bool right = count <= out && left == 0 && (with_out ? takes_out && given[out] != Py_None : takes_no_out);
  if (!with_out) given[out] = Py_None;
  if (shape.last_optional && given[out - 1] == nullptr) given[out - 1] = Py_None;
  for (Py_ssize_t k = 0; k < out; ++k) right = right && given[k] != nullptr;
  if (right) {
    Object result(called<shape>(given));
    if (result.get() != Py_None) return with_out && result ? Py_NewRef(Py_None) : result.release();
  }
  PyErr_Clear();
  return PyObject_Call(original, positional, named);
}

// The sizes of a tensor, or a tuple of the sizes of several.
PyObject* sizes_of(const Tensors& tensors, bool several) {
  if (!several) return PyObject_GetAttr(tensors[0], names.shape);
  Object all(PyTuple_New(tensors.size()));
  for (Py_ssize_t k = 0; k < tensors.size() && all; ++k) {
    PyObject* one = PyObject_GetAttr(tensors[k], names.shape);
    if (one == nullptr) return nullptr;
    PyTuple_SetItem(all.get(), k, one);
  }
  return all.release();
}

// What a recorded call keeps for its backward pass in `ctx.recorded`: the shape of the linear input, or a tuple of
// them, and the other arguments. Sequence lengths are saved as tensors are, so that writing to them before the backward
// pass is an error.
template <const Signature& shape>
bool keep(PyObject* ctx, const Tensors& linear, PyObject* others) {
  Object kept(Py_NewRef(others));
  if constexpr (shape.has_lengths) {
    const Object done(PyObject_CallMethodObjArgs(ctx, names.save_for_backward, PyTuple_GetItem(others, 0), nullptr));
    if (!done) return false;
    kept = Object(PyTuple_GetSlice(others, 1, PyTuple_Size(others)));
  }
  const Object shapes(sizes_of(linear, shape.takes_list));
  const Object recorded(shapes && kept ? PyTuple_Pack(2, shapes.get(), kept.get()) : nullptr);
  return recorded && PyObject_SetAttr(ctx, names.recorded, recorded.get()) == 0;
}

// forward(ctx, input, others) or forward(ctx, others, *inputs): calls the operator below the Autograd key. What `call`
// has checked of the numbers is checked again, and of the tensors that they are tensors: graphs show this class, and
// anybody can call it.
template <const Signature& shape>
PyObject* forward(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kMost = 6, kOthers = arguments_of(shape) - 1;
  static_assert(kOthers < kMost);
  PyObject* others = count < 3 ? nullptr : arguments[shape.takes_list ? 1 : 2];
  const Object inputs(shape.takes_list ? PyTuple_New(std::max<Py_ssize_t>(count - 2, 0)) : nullptr);
  if constexpr (shape.takes_list) {
    if (!inputs) return nullptr;
    for (Py_ssize_t k = 2; k < count; ++k) PyTuple_SetItem(inputs.get(), k - 2, Py_NewRef(arguments[k]));
  }
  const Tensors linear(shape.takes_list ? inputs.get() : count == 3 ? arguments[1] : Py_None, shape.takes_list);
  if (size_of_tuple(others) != kOthers || !linear.plain() ||
      (shape.has_lengths && !is_plain(PyTuple_GetItem(others, 0))))
    return PyErr_Format(PyExc_TypeError, "%s: forward takes %s and a tuple of the other %zd arguments of the operator",
                        title_of(shape), shape.takes_list ? "a node, tensors" : "a node, a tensor", kOthers);

  PyObject* given[kMost] = {};
  for (Py_ssize_t k = 0; k < kOthers; ++k) given[1 + k] = PyTuple_GetItem(others, k);
  FastCall fast;
  Object results(read_numbers(shape, given, fast) ? result_of<shape>(linear, given, fast) : fall_back());
  if (!results) return nullptr;
  if (results.get() == Py_None) {
    PyErr_SetString(not_plain, "this call has to be made in the ordinary way");
    return nullptr;
  }
  if (!keep<shape>(arguments[0], linear, others)) return nullptr;
  return shape.gives_list ? PyList_AsTuple(results.get()) : results.release();
}

// Where a transpose takes an argument from: an index says which of the other arguments that were kept, or one of these.
enum : int { kCotangent = -1, kCotangents = -2, kShapes = -3, kSizesAlongAxis = -4, kSaved = -5, kNone = -6 };

// The transposes, as calls that take their arguments, `out` last, from such places.
struct Transpose {
  PyObject* (*called)(PyObject* const* arguments);
  int arguments[kMostArguments];
};
constexpr Transpose kTransposes[] = {{called<kSliceGrad>, {kCotangent, kShapes, 0, 1, 2, kNone}},
                                     {called<kSlice1>, {kCotangent, 1, 2, 3, kShapes, kNone}},
                                     {called<kJoin>, {kCotangents, 1, kNone}},
                                     {called<kSplit>, {kCotangent, kSizesAlongAxis, 0, kNone}},
                                     {called<kReverse>, {kCotangent, kSaved, 0, kNone}}};

// The size of each shape along an axis. Null after an error.
PyObject* sizes_along(PyObject* axis, PyObject* shapes) {
  Object sizes(PyTuple_New(PyTuple_Size(shapes)));
  for (Py_ssize_t k = 0; sizes && k < PyTuple_Size(shapes); ++k) {
    PyObject* size = PyObject_GetItem(PyTuple_GetItem(shapes, k), axis);
    if (size == nullptr) return nullptr;
    PyTuple_SetItem(sizes.get(), k, size);
  }
  return sizes.release();
}

// The cotangents of the linear inputs, of those of the results, and of what was kept, which for sequence lengths is the
// tuple of saved tensors.
PyObject* transposed(const Transpose& transpose, PyObject* shapes, PyObject* others, PyObject* saved,
                     PyObject* cotangents) {
  PyObject* arguments[kMostArguments];
  Object sizes;
  for (int k = 0; k < kMostArguments; ++k) {
    const int from = transpose.arguments[k];
    if (from == kSizesAlongAxis) sizes = Object(sizes_along(PyTuple_GetItem(others, 0), shapes));
    if (from == kSizesAlongAxis && !sizes) return nullptr;
    arguments[k] = from == kCotangent        ? PyTuple_GetItem(cotangents, 0)
                   : from == kCotangents     ? cotangents
                   : from == kShapes         ? shapes
                   : from == kSizesAlongAxis ? sizes.get()
                   : from == kSaved          ? PyTuple_GetItem(saved, 0)
                   : from == kNone           ? Py_None
                                             : PyTuple_GetItem(others, from);
    if (from == kNone) break;  // that was `out`
  }
  return transpose.called(arguments);
}

// What autograd calls with the cotangents, in the place of `apply` of autograd's own class: a cotangent for each
// argument of the recorder's `apply`. Saved tensors are unpacked once, as hooks may allow no more.
template <const Signature& shape>
PyObject* backward(PyObject* ctx, PyObject* const* arguments, Py_ssize_t count) {
  if (shape.gives_list ? count == 0 : count != 1)
    return PyErr_Format(PyExc_TypeError, "%s: apply takes a cotangent for each result, got %zd", title_of(shape),
                        count);
  const Object recorded(PyObject_GetAttr(ctx, names.recorded));
  const Object saved(recorded && shape.has_lengths ? PyObject_GetAttr(ctx, names.saved_tensors) : PyTuple_New(0));
  const Object cotangents(PyTuple_New(count));
  if (!recorded || !saved || !cotangents) return nullptr;
  for (Py_ssize_t k = 0; k < count; ++k) PyTuple_SetItem(cotangents.get(), k, Py_NewRef(arguments[k]));
  // Python code can set both.
  const bool two = size_of_tuple(recorded.get()) == 2;
  PyObject* const shapes = two ? PyTuple_GetItem(recorded.get(), 0) : nullptr;
  PyObject* const others = two ? PyTuple_GetItem(recorded.get(), 1) : nullptr;
  if (size_of_tuple(shapes) < 0 || size_of_tuple(others) != arguments_of(shape) - 1 - shape.has_lengths ||
      size_of_tuple(saved.get()) != shape.has_lengths)
    return PyErr_Format(PyExc_TypeError, "%s: what a node has kept for the backward pass must not be changed",
                        title_of(shape));
  const Object results(transposed(kTransposes[shape.number], shapes, others, saved.get(), cotangents.get()));
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

// window(shape, index): the result of torch_dml_ops.window for sizes that are ints and slices of ints or None that
// select something; None for everything else.
PyObject* window(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain_tuple(arguments[0])) return fall_back();
  FastCall shape, call;
  Index index(arguments[1]);
  if (!read_list(arguments[0], shape) || !index.plain() || !index.slices_alone() ||
      !index.read(shape.numbers, shape.begin[1], call))
    return fall_back();
  const Object offsets(tuple_of(call.list(0))), sizes(tuple_of(call.list(1))), strides(tuple_of(call.list(2)));
  if (!offsets || !sizes || !strides) return nullptr;
  return PyTuple_Pack(3, offsets.get(), sizes.get(), strides.get());
}

// A tensor of these sizes in place of the one on the stack, as torch_dml_ops._index.reshaped makes it.
PyObject* reshaped(Stack& stack, std::span<const int64_t> sizes) {
  return stack.push_list(sizes) && stack.call("aten::_unsafe_view", "", true) ? stack.result() : fall_back();
}

// index(input, index): the result of torch_dml_ops.index(input)[index] if all is plain and something is selected; None
// for everything else.
PyObject* index(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !is_plain(arguments[0])) return fall_back();
  Index index(arguments[1]);
  if (!index.plain() || !nothing_else_at_work()) return fall_back();
  FastCall call;
  Stack stack;
  FastCall** slot = stack.push(arguments[0]) ? slot_for(stack.tensor(0)) : nullptr;
  int64_t rank = 0, *sizes = nullptr;
  if (slot == nullptr || aoti_torch_get_dim(stack.tensor(0), &rank) != TORCH_SUCCESS ||
      aoti_torch_get_sizes(stack.tensor(0), &sizes) != TORCH_SUCCESS || !index.read(sizes, rank, call))
    return fall_back();
  if (aoti_torch_grad_mode_is_enabled() && requires_grad(arguments[0])) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    const Object others = others_of(kSlice1, nullptr, call);
    Object result(others ? record(kSlice1, arguments[0], arguments[0], others.get()) : nullptr);
    if (!result || result.get() == Py_None || index.slices_alone()) return result.release();
    Stack recorded;
    return recorded.push(result.get()) ? reshaped(recorded, call.list(3)) : fall_back();
  }
  if (!stack.call(kSlice1.name, "fast", stack.brief(), call, slot)) return fall_back();
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

// As methods of autograd's classes, which are called with the node that they record.
PyMethodDef backward_methods[] = {method("slice1", backward<kSlice1>), method("slice_grad", backward<kSliceGrad>),
                                  method("split", backward<kSplit>), method("join", backward<kJoin>),
                                  method("reverse_subsequences", backward<kReverse>)};

// record_with(number, function): calls of the operator that need a derivative are recorded by this subclass of
// autograd.Function, which has its `forward` and `backward`. (What it takes the place of stays in memory, as in
// set_up.)
PyObject* record_with(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "record_with takes 2 arguments, got %zd", count);
  const long number = PyLong_AsLong(arguments[0]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (number < 0 || number >= long(std::size(recorders))) return PyErr_Format(PyExc_IndexError, "no such operator");
  const Object node(PyObject_GetAttrString(arguments[1], "_backward_cls"));
  if (!node) return nullptr;
  if (!PyType_Check(node.get())) return PyErr_Format(PyExc_TypeError, "%R is not the class of a node", node.get());
  Object apply(PyObject_GetAttrString(arguments[1], "apply"));
  Object transposed(apply ? PyObject_GetAttrString(arguments[1], "transposed") : nullptr);
  if (!transposed) return nullptr;
  const Object method(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(node.get()), &backward_methods[number]));
  if (!method || PyObject_SetAttrString(node.get(), "apply", method.get()) != 0) return nullptr;
  recorders[number] = {apply.release(), transposed.release()};
  Py_RETURN_NONE;
}

PyMethodDef with_names(const char* name, PyCFunctionWithKeywords function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_VARARGS | METH_KEYWORDS,
          nullptr};
}

// What stands in a packet, in its overload `default` and in `out`.
template <const Signature& shape>
PyMethodDef short_ways[] = {with_names(title_of(shape), in_place_of<shape, true, true>),
                            with_names(title_of(shape), in_place_of<shape, false, true>),
                            with_names(title_of(shape), in_place_of<shape, true, false>)};
PyMethodDef* const kShortWays[] = {short_ways<kSlice1>, short_ways<kSliceGrad>, short_ways<kSplit>, short_ways<kJoin>,
                                   short_ways<kReverse>};

// in_place_of(number, form, original): the function that tries the short way of an operator before it calls `original`,
// which is that of the packet (form 0), of the overload `default` (1) or of `out` (2).
PyObject* new_in_place_of(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "in_place_of takes 3 arguments, got %zd", count);
  const long number = PyLong_AsLong(arguments[0]), form = PyErr_Occurred() ? -1 : PyLong_AsLong(arguments[1]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (number < 0 || number >= long(std::size(kShortWays)) || form < 0 || form > 2)
    return PyErr_Format(PyExc_IndexError, "no such operator");
  const Object module_name(PyObject_GetAttrString(arguments[2], "__module__"));
  return module_name ? PyCFunction_NewEx(&kShortWays[number][form], arguments[2], module_name.get()) : nullptr;
}

PyMethodDef methods[] = {method("set_up", set_up),
                         method("in_place_of", new_in_place_of),
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
}  // namespace torch_dml_ops::python

PyMODINIT_FUNC PyInit__fast_calls() {
  using namespace torch_dml_ops::python;
  not_plain = PyErr_NewException("torch_dml_ops._fast_calls.NotPlain", nullptr, nullptr);
  return not_plain != nullptr && make_names() && make_argument_names() ? PyModule_Create(&module) : nullptr;
}
