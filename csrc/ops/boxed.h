// The two forms in which torch's dispatcher calls an operator's function, both with a stack of arguments that the
// function owns from then on: with all of its arguments, and `fast`, with the tensors alone, where the numbers come
// from a FastCall.
#pragma once

#include <torch/csrc/stable/library.h>

#include <array>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fast_call.h"
#include "ops.h"

namespace torch_dml_ops::boxed {

namespace stable = torch::stable::detail;

inline Tensor tensor_from(StableIValue value) { return Tensor(stable::to<AtenTensorHandle>(value)); }

inline TensorList tensors_from(StableIValue value) {
  const auto list = stable::to<StableListHandle>(value);
  std::size_t size = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_size(list, &size));
  TensorList tensors;
  tensors.reserve(size);
  for (std::size_t k = 0; k < size; ++k) {
    StableIValue item = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_get_item(list, k, &item));
    tensors.push_back(tensor_from(item));
  }
  TORCH_ERROR_CODE_CHECK(torch_delete_list(list));
  return tensors;
}

// torch takes None for a tensor, but not for a list of them or for numbers.
template <class Argument>
void check_given(const char* op, const Argument& argument) {
  if constexpr (std::is_same_v<Argument, Tensor>) {
    bool defined = false;
    TORCH_ERROR_CODE_CHECK(aoti_torch_is_defined(argument.get(), &defined));
    if (!defined) throw std::runtime_error(std::string(op) + ": every tensor must be given, got None");
  }
}

inline void give_back(StableIValue* stack, Tensor tensor) { stack[0] = stable::from(tensor.release()); }
inline void give_back(StableIValue* stack, TensorList tensors) {
  StableListHandle list = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(tensors.size(), &list));
  for (Tensor& tensor : tensors) TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, stable::from(tensor.release())));
  stack[0] = stable::from(list);
}

// Reads arguments one after another, all from the stack.
struct StackReader {
  StableIValue* stack;

  // What owns an argument of this type during the call.
  template <class Argument>
  auto next() {
    using T = std::remove_cvref_t<Argument>;
    if constexpr (std::is_same_v<T, Tensor>)
      return tensor_from(*stack++);
    else if constexpr (std::is_same_v<T, Tensors>)
      return tensors_from(*stack++);
    else if constexpr (std::is_same_v<T, Ints>)
      return stable::to<std::vector<int64_t>>(*stack++);
    else if constexpr (std::is_same_v<T, std::optional<Ints>>)
      return stable::to<std::optional<std::vector<int64_t>>>(*stack++);
    else
      return stable::to<int64_t>(*stack++);
  }
};

// The same with the numbers of a call.
struct FastReader {
  StackReader tensors;
  const FastCall& call;
  int lists = 0;

  template <class Argument>
  auto next() {
    using T = std::remove_cvref_t<Argument>;
    if constexpr (std::is_same_v<T, Ints>)
      return call.list(lists++);
    else if constexpr (std::is_same_v<T, std::optional<Ints>>)
      return lists < call.lists ? std::optional<Ints>(call.list(lists++)) : std::nullopt;
    else if constexpr (std::is_same_v<T, int64_t>)
      return call.axis;
    else
      return tensors.next<T>();
  }
};

// Functions that take what another one takes, and refuse it with a sentence. (One that throws without taking its
// arguments from the stack leaves their tensors in memory for ever.)
template <auto function>
struct Refusal;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Refusal<function> {
  template <const char* sentence>
  static Result refuse(Arguments...) {
    throw std::runtime_error(sentence);
  }
};

template <auto function>
struct Boxed;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Boxed<function> {
  static_assert((std::is_same_v<std::remove_cvref_t<Arguments>, int64_t> + ... + 0) <= 1,
                "a FastCall has only one number outside its lists: the axis");

  template <const char* op>
  static void ordinary(StableIValue* stack, uint64_t, uint64_t) {
    StackReader reader{stack};
    const std::tuple<decltype(reader.next<Arguments>())...> arguments{reader.next<Arguments>()...};
    std::apply([](const auto&... each) { (check_given(op, each), ...); }, arguments);
    run(stack, arguments);
  }

  static void fast(StableIValue* stack, uint64_t, uint64_t) {
    FastCall& call = next_call();
    FastReader reader{{stack}, call};
    run_unless_refused(call, stack, std::tuple<decltype(reader.next<Arguments>())...>{reader.next<Arguments>()...});
  }

  // The same for a list of `count` tensors, given or returned, that are on the stack one by one.
  template <std::size_t count>
  static void fast_few(StableIValue* stack, uint64_t, uint64_t) {
    FastCall& call = next_call();
    if constexpr (std::is_same_v<Result, TensorList>) {
      FastReader reader{{stack}, call};
      run_unless_refused<count>(call, stack,
                                std::tuple<decltype(reader.next<Arguments>())...>{reader.next<Arguments>()...});
    } else {
      TensorList tensors;
      for (std::size_t k = 0; k < count; ++k) tensors.push_back(tensor_from(stack[k]));
      run_unless_refused(call, stack, std::tuple<Tensors, int64_t>{tensors, call.axis});
    }
  }

 private:
  static FastCall& next_call() {
    FastCall* call = std::exchange(*torch_dml_ops_fast_call(), nullptr);
    if (call == nullptr)
      throw std::runtime_error(
          "torch_dml_ops: this overload is for the package alone; call the operator with all its arguments");
    return *call;
  }

  // `few`: how many results a list has that is returned one by one; 0 for none.
  template <std::size_t few = 0, class Tuple>
  static void run(StableIValue* stack, const Tuple& arguments) {
    if constexpr (std::is_void_v<Result>) {
      std::apply(function, arguments);
    } else if constexpr (few == 0) {
      give_back(stack, std::apply(function, arguments));
    } else {
      TensorList results = std::apply(function, arguments);
      if (results.size() != few) throw std::runtime_error("torch_dml_ops: an overload for another number of results");
      for (std::size_t k = 0; k < few; ++k) give_back(stack + k, std::move(results[k]));
    }
  }

  template <std::size_t few = 0, class Tuple>
  static void run_unless_refused(FastCall& call, StableIValue* stack, const Tuple& arguments) {
    try {
      run<few>(stack, arguments);
    } catch (const std::exception&) {
      call.refused = true;
      for (std::size_t k = 0; k < (std::is_same_v<Result, Tensor> ? 1 : few); ++k) {
        AtenTensorHandle undefined = nullptr;
        aoti_torch_new_uninitialized_tensor(&undefined);
        give_back(stack + k, Tensor(undefined));
      }
      if constexpr (std::is_same_v<Result, TensorList> && few == 0) give_back(stack, TensorList());
    }
  }
};

}  // namespace torch_dml_ops::boxed
