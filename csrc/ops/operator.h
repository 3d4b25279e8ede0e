// What follows from an operator's schema and two functions of its own: one that checks its arguments and gives the
// sizes of its result, or those of each result by index, and one that copies into results that have them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "check.h"
#include "layout.h"
#include "ops.h"

namespace torch_dml_ops {

// A literal as an argument of a template: "split(Tensor input, SymInt[] split_sizes, int axis) -> Tensor[]".
template <std::size_t size>
struct Schema {
  char text[size];
  constexpr Schema(const char (&literal)[size]) { std::copy_n(literal, size, text); }

  constexpr std::array<char, size> name() const {
    std::array<char, size> name{};
    std::copy_n(text, std::string_view(text).find('('), name.begin());
    return name;
  }
  constexpr bool gives_list() const { return std::string_view(text).ends_with("Tensor[]"); }
  constexpr std::string_view argument(std::size_t k) const {
    std::string_view rest(text);
    for (rest.remove_prefix(rest.find('(') + 1); k > 0; --k) rest.remove_prefix(rest.find(", ") + 2);
    rest = rest.substr(rest.find(' ') + 1);
    return rest.substr(0, rest.find_first_of(",)="));
  }
};

template <Schema schema, auto sizes, auto copy>
struct Operator;

template <Schema schema, class Sizes, class First, class... Rest, Sizes (*sizes)(First, Rest...), auto copy>
struct Operator<schema, sizes, copy> {
  static constexpr bool gives_list = schema.gives_list();
  using Result = std::conditional_t<gives_list, TensorList, Tensor>;
  using Out = std::conditional_t<gives_list, Tensors, const Tensor&>;

  // Makes new results.
  static Result fresh(First first, Rest... rest) {
    const Sizes each = sizes(first, rest...);
    if constexpr (gives_list) {
      TensorList results;
      results.reserve(each.size());
      for (std::size_t k = 0; k < each.size(); ++k) results.push_back(new_dense(kName, each[k], listed(first)));
      copy(first, rest..., results);
      return results;
    } else {
      Tensor result = new_dense(kName, each, listed(first));
      copy(first, rest..., result);
      return result;
    }
  }

  // Writes into given ones.
  static void into(First first, Rest... rest, Out out) {
    const Sizes each = sizes(first, rest...);
    if constexpr (gives_list) {
      require(out.size() == each.size(), kName, ": out must have length ", each.size(), ", a tensor for each of ",
              kArguments[1], ", got ", out.size());
      for (std::size_t k = 0; k < out.size(); ++k) check_fits(Name{"out", int64_t(k)}, out[k], each[k], first);
      for (std::size_t k = 0; k < out.size(); ++k) check_shares_none(Name{"out", int64_t(k)}, out[k], first, rest...);
      check_disjoint_outs(kName, out);
      for (const Tensor& one : out) one.mutable_data();  // which moves lazy clones, and an input with its own storage
    } else {
      check_fits(Name{"out"}, out, each, first);
      check_shares_none(Name{"out"}, out, first, rest...);
    }
    copy(first, rest..., out);
  }

 private:
  static constexpr auto kNameText = schema.name();
  static constexpr const char* kName = kNameText.data();
  static constexpr auto kArguments = []<std::size_t... k>(std::index_sequence<k...>) {
    return std::array{schema.argument(k)...};
  }(std::make_index_sequence<1 + sizeof...(Rest)>());

  static Tensors listed(const Tensor& first) { return {&first, 1}; }
  static Tensors listed(Tensors first) { return first; }

  static constexpr bool takes_list = !std::is_same_v<First, const Tensor&>;

  static void check_fits(Name name, const Tensor& out, Ints each, First first) {
    check_out(kName, name, out, each, Name{kArguments[0], takes_list ? 0 : -1}, listed(first)[0]);
  }

  static void check_shares_none(Name name, const Tensor& out, First first, Rest... rest) {
    const Tensors inputs = listed(first);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      check_disjoint(kName, name, out, Name{kArguments[0], takes_list ? int64_t(k) : -1}, inputs[k]);
    std::size_t at = 0;
    const auto check_constant = [&](const auto& argument) {
      ++at;
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, Tensor>)
        check_disjoint(kName, name, out, Name{kArguments[at]}, argument);
    };
    (check_constant(rest), ...);
  }
};

}  // namespace torch_dml_ops
