// The two forms in which torch's dispatcher calls an operator's function, both with a stack of arguments that the
// function owns from then on: with all of its arguments, and `fast`, with the tensors alone, where the numbers come
// from a FastCall.
#pragma once

#include <torch/csrc/stable/library.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fast_call.h"
#include "operator.h"

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
    require(defined, op, ": every tensor must be given, got None");
  }
}

inline void give_back(StableIValue* stack, Tensor tensor) { stack[0] = stable::from(tensor.release()); }
inline void give_back(StableIValue* stack, TensorList tensors) {
  StableListHandle list = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(tensors.size(), &list));
  for (Tensor& tensor : tensors) TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, stable::from(tensor.release())));
  stack[0] = stable::from(list);
}

// Reads arguments one after another, all from the stack. `few`: so many tensors are there one by one in place of a
// list.
template <std::size_t few = 0>
struct StackReader {
  StableIValue* stack;

  // What owns an argument of this type during the call.
  template <class Argument>
  auto next() {
    using T = std::remove_cvref_t<Argument>;
    if constexpr (std::is_same_v<T, Tensor>) {
      return tensor_from(*stack++);
    } else if constexpr (std::is_same_v<T, Tensors> && few != 0) {
      TensorList tensors;
      for (std::size_t k = 0; k < few; ++k) tensors.push_back(tensor_from(*stack++));
      return tensors;
    } else if constexpr (std::is_same_v<T, Tensors>) {
      return tensors_from(*stack++);
    } else if constexpr (std::is_same_v<T, Ints>) {
      return stable::to<std::vector<int64_t>>(*stack++);
    } else if constexpr (std::is_same_v<T, std::optional<Ints>>) {
      return stable::to<std::optional<std::vector<int64_t>>>(*stack++);
    } else {
      static_assert(std::is_same_v<T, int64_t>, "an operator takes tensors, whole numbers and lists of either");
      return stable::to<int64_t>(*stack++);
    }
  }
};

// The same with the numbers of a call.
template <std::size_t few>
struct FastReader {
  StackReader<few> tensors;
  const FastCall& call;
  int lists = 0;

  template <class Argument>
  auto next() {
    using T = std::remove_cvref_t<Argument>;
    if constexpr (std::is_same_v<T, Ints>)
      return call.list(lists++);
    else if constexpr (std::is_same_v<T, std::optional<Ints>>)
      return call.has(lists) ? std::optional<Ints>(call.list(lists++)) : (++lists, std::nullopt);
    else if constexpr (std::is_same_v<T, int64_t>)
      return call.list(lists++)[0];
    else
      return tensors.template next<T>();
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
  template <Schema schema>
  static void ordinary(StableIValue* stack, uint64_t, uint64_t) {
    static constexpr auto name = schema.name();
    StackReader<> reader{stack};
    const std::tuple<decltype(reader.template next<Arguments>())...> arguments{reader.template next<Arguments>()...};
    std::apply([](const auto&... each) { (check_given(name.data(), each), ...); }, arguments);
    run(stack, arguments);
  }

  // `few`: so many tensors that are given or returned are on the stack one by one; 0 for a list, or where none is.
  template <std::size_t few = 0>
  static void fast(StableIValue* stack, uint64_t, uint64_t) {
    constexpr bool gives_list = std::is_same_v<Result, TensorList>;
    FastCall* const call = std::exchange(*torch_dml_ops_fast_call(), nullptr);
    if (call == nullptr)
      throw std::runtime_error(
          "torch_dml_ops: this overload is for the package alone; call the operator with all its arguments");
    FastReader<gives_list ? 0 : few> reader{{stack}, *call};
    run_unless_refused<gives_list ? few : 0>(
        *call, stack, std::tuple<decltype(reader.template next<Arguments>())...>{reader.template next<Arguments>()...});
  }

 private:
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
