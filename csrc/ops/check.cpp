#include "check.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "overlap.h"

namespace torch_dml_ops {
namespace {

// The longest list in a sentence, in characters.
constexpr std::size_t kLongest = 60;

std::string decimal(unsigned __int128 n) {
  std::string digits;
  do digits.insert(digits.begin(), char('0' + int(n % 10)));
  while ((n /= 10) != 0);
  return digits;
}

// The list in brackets, or nothing if that is too long.
std::string in_full(std::span<const int64_t> numbers) {
  std::string text = "[";
  for (const int64_t n : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(n);
    if (text.size() >= kLongest) return "";
  }
  return text + ']';
}

View view_of(const Tensor& t) {
  return {int64_t(reinterpret_cast<uintptr_t>(t.const_data())), t.element_size(), t.sizes(), t.strides()};
}

}  // namespace

std::ostream& operator<<(std::ostream& to, const Numbers& list) {
  if (const std::string text = in_full(list.numbers); !text.empty()) return to << text;
  std::string text = "[";
  for (const int64_t n : list.numbers) {
    const std::string next = std::to_string(n) + ", ";
    if (text.size() + next.size() + 2 > kLongest) break;  // 2: the ellipsis and the bracket
    text += next;
  }
  to << text << "…] (" << list.numbers.size() << " in all";
  if (list.with_sum) {
    unsigned __int128 sum = 0;
    for (const int64_t n : list.numbers) sum += uint64_t(n);
    to << ", sum " << decimal(sum);
  }
  return to << ')';
}

std::ostream& operator<<(std::ostream& to, const Difference& lists) {
  const auto [required, given, except] = lists;
  if (required.size() != given.size() || (!in_full(required).empty() && !in_full(given).empty())) return to;
  for (std::size_t k = 0; k < given.size(); ++k)
    if (int64_t(k) != except && given[k] != required[k])
      return to << ", with " << given[k] << " instead of " << required[k] << " at index " << k;
  return to;
}

std::string dtype_name(const Tensor& t) {
  using torch::headeronly::ScalarType;
  const int32_t number = t.dtype();
  constexpr int32_t kBComplex32 = 46;  // since torch 2.15
  if (number == kBComplex32) return "bcomplex32";
  if (number >= int32_t(ScalarType::Undefined)) return "dtype number " + std::to_string(number);  // of a newer torch
  const auto type = ScalarType(number);  // scalar_type() would refuse the dtypes that the stable ABI has no name for
  switch (type) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::ComplexHalf:
      return "complex32";
    case ScalarType::ComplexFloat:
      return "complex64";
    case ScalarType::ComplexDouble:
      return "complex128";
    default: {  // the others have the same name, in lower case
      std::string name = torch::headeronly::toString(type);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
      return name;
    }
  }
}

std::string device_name(const Tensor& t) {
  if (t.device_type() == aoti_torch_device_type_cpu()) return "cpu";
  if (t.device_type() == aoti_torch_device_type_cuda()) return "cuda:" + std::to_string(t.device_index());
  return "another device";
}

char* data_of(const char* op, Name name, const Tensor& t, bool written) {
  const auto sizes = t.sizes(), strides = t.strides();
  int64_t last = t.storage_offset();  // element
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  const int64_t bytes = t.storage_bytes(), item_size = t.element_size();
  if (last >= bytes / item_size)
    require(false, op, ": ", name, " must lie within its storage, but this was made smaller: it has ", bytes,
            " bytes of the ", (last + 1) * item_size, " that are needed");
  return static_cast<char*>(written ? t.mutable_data() : const_cast<void*>(t.const_data()));
}

void check_rank(const char* op, const char* argument, const Tensor& t) {
  require(t.dim() >= 1, op, ": ", argument, " must have at least 1 dimension, got a 0-d tensor");
}

void check_axis(const char* op, int64_t axis, int64_t rank) {
  if (axis < 0 && axis >= -rank)
    require(false, op, ": axis must be from 0 to ", rank - 1, ", got ", axis, "; write ", axis + rank, " instead");
  require(axis >= 0 && axis < rank, op, ": axis must be from 0 to ", rank - 1, ", got ", axis);
}

void check_same_device(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like) {
  if (t.device_type() == like.device_type() && t.device_index() == like.device_index()) return;
  std::ostringstream way_out;
  if (name.argument != "out") way_out << "; write " << name << ".to(" << like_name << ".device)";
  require(false, op, ": ", name, " must be on the device of ", like_name, ", ", device_name(like), ", got ",
          device_name(t), way_out.str());
}

void check_same_kind(const char* op, Name name, const Tensor& t, Name like_name, const Tensor& like) {
  check_same_device(op, name, t, like_name, like);
  if (t.dtype() == like.dtype()) return;
  require(false, op, ": ", name, " must have the dtype of ", like_name, ", ", dtype_name(like), ", got ", dtype_name(t),
          name.argument == "out" ? "" : "; convert one of them with to()");
}

void check_out(const char* op, Name name, const Tensor& out, std::span<const int64_t> sizes, Name like_name,
               const Tensor& like) {
  const auto given = out.sizes();
  if (!std::equal(given.begin(), given.end(), sizes.begin(), sizes.end()))
    require(false, op, ": ", name, " must have sizes ", Numbers{sizes}, ", got ", Numbers{given},
            Difference{sizes, given});
  check_same_kind(op, name, out, like_name, like);
  const Overlap self = overlaps_itself(view_of(out));
  if (self == Overlap::kNone) return;
  require(false, op, ": ", name, " must not overlap itself, ",
          self == Overlap::kSome ? "got strides " : "and it is too complicated to tell with strides ",
          Numbers{out.strides()});
}

void refuse_shared(const char* op, Overlap shared, Name out_name, Name other_name) {
  require(shared == Overlap::kNone, op, ": ", out_name, " must not share memory with ", other_name,
          shared == Overlap::kSome ? "" : ", and their strides are too complicated to tell");
}

void check_disjoint(const char* op, Name out_name, const Tensor& out, Name other_name, const Tensor& other) {
  if (overlap(view_of(out), view_of(other)) == Overlap::kNone) return;
  data_of(op, out_name, out, false);  // Where there is no memory, as in two emptied storages, addresses say nothing.
  out.mutable_data();
  refuse_shared(op, overlap(view_of(out), view_of(other)), out_name, other_name);
}

void check_disjoint_outs(const char* op, std::span<const Tensor> outs) {
  const auto search = [&] {
    std::vector<View> views;
    for (const Tensor& out : outs) views.push_back(view_of(out));
    return find_overlap(views);
  };
  const auto name = [](std::size_t k) { return Name{"out", int64_t(k)}; };
  if (const Pair found = search(); found.overlap != Overlap::kNone) {
    data_of(op, name(found.second), outs[found.second], false);
    for (const Tensor& out : outs) out.mutable_data();
    const Pair shared = search();
    refuse_shared(op, shared.overlap, name(shared.second), name(shared.first));
  }
}

}  // namespace torch_dml_ops
