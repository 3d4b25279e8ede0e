// The two forms in which torch's dispatcher calls an operator's function: with all of its arguments, and `fast`, with
// the tensors alone, where the numbers come from a FastCall.
#pragma once

#include <torch/csrc/stable/library.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fast_call.h"
#include "ops.h"

namespace torch_dml_ops::boxed {

// The type that owns an argument during a call: torch passes vectors, and the functions take spans of them.
template <class T>
struct OwnedArgument {
  using type = std::remove_cvref_t<T>;
};
template <class T>
struct OwnedArgument<std::span<const T>> {
  using type = std::vector<T>;
};
template <>
struct OwnedArgument<std::optional<Ints>> {
  using type = std::optional<std::vector<int64_t>>;
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
  static Result on_vectors(typename OwnedArgument<Arguments>::type... arguments) { return function(arguments...); }

  // Reads the arguments of a fast call one after another: tensors from the stack, numbers from the call.
  struct Reader {
    const FastCall& call;
    StableIValue* stack;
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
        return torch::stable::detail::to<typename OwnedArgument<T>::type>(*stack++);
    }
  };

  static_assert((std::is_same_v<std::remove_cvref_t<Arguments>, int64_t> + ... + 0) <= 1,
                "a FastCall has only one number outside its lists: the axis");

  static FastCall& next_call() {
    FastCall* call = std::exchange(*torch_dml_ops_fast_call(), nullptr);
    if (call == nullptr)
      throw std::runtime_error(
          "torch_dml_ops: this overload is for the package alone; call the operator with all its arguments");
    return *call;
  }

  static void fast(StableIValue* stack, uint64_t, uint64_t) {
    FastCall& call = next_call();
    Reader reader{call, stack};
    run(call, stack, std::tuple<decltype(reader.template next<Arguments>())...>{reader.template next<Arguments>()...});
  }

  // The same for a list of `count` tensors that are on the stack one by one.
  template <std::size_t count>
  static void fast_few(StableIValue* stack, uint64_t, uint64_t) {
    FastCall& call = next_call();
    std::vector<Tensor> tensors;
    tensors.reserve(count);
    for (std::size_t k = 0; k < count; ++k) tensors.push_back(torch::stable::detail::to<Tensor>(stack[k]));
    run(call, stack, std::tuple{Tensors(tensors), call.axis});
  }

  template <class Tuple>
  static void run(FastCall& call, StableIValue* stack, Tuple arguments) {
    try {
      if constexpr (std::is_void_v<Result>)
        std::apply(function, arguments);
      else
        stack[0] = torch::stable::detail::from(std::apply(function, arguments));
    } catch (const std::exception&) {
      call.refused = true;
      if constexpr (std::is_same_v<Result, Tensor>) {
        AtenTensorHandle undefined = nullptr;
        aoti_torch_new_uninitialized_tensor(&undefined);
        stack[0] = torch::stable::detail::from(undefined);
      } else if constexpr (!std::is_void_v<Result>) {
        stack[0] = torch::stable::detail::from(Result{});
      }
    }
  }
};

}  // namespace torch_dml_ops::boxed
