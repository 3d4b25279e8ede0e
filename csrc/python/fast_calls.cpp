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

#include <iterator>
#include <span>

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
}  // namespace torch_dml_ops::python

PyMODINIT_FUNC PyInit__fast_calls() { return PyModule_Create(&torch_dml_ops::python::module); }
