// Executes a plan for each compiled kernel, which check_plans.cpp checks.
#include <list>
#include <regex>
#include <utility>

#include "../../../../csrc/kernels/cuda/access_pattern.h"
#include "../../random_numbers.h"
#include "launches.h"

using namespace torch_dml_ops;

namespace {

std::list<std::vector<char>> memory;  // of a plan

char* take(int64_t items, int64_t item) { return memory.emplace_back(any_bytes(items * item)).data(); }

// With as many dimensions and copies as the kernel takes. Gaps keep dimensions from being merged; strides and odd sizes
// keep items from being moved several at a time.

void execute_interleaved(bool joined, int64_t item) {
  constexpr int64_t kRows = 600, kSize = 3, copies = 16;
  char* whole = take(kRows * kSize * copies, item);
  AffineCopies plan{item, {}};
  for (int64_t k = 0; k < copies; ++k) {
    char *part = whole + k * kSize * item, *piece = take(kRows * kSize, item);
    if (joined)
      plan.copies.push_back({part, piece, {plain_dim(kRows, kSize * copies, kSize), plain_dim(kSize, 1, 1)}});
    else
      plan.copies.push_back({piece, part, {plain_dim(kRows, kSize, kSize * copies), plain_dim(kSize, 1, 1)}});
  }
  cuda::execute(std::move(plan), nullptr);
}

void execute_affine(cuda::AccessPattern access, int64_t item, std::size_t rank, int64_t copies) {
  using enum cuda::AccessPattern;
  const bool tiled = is_tiled(access);
  if (tiled) rank = 3;  // these kernels have one rank, and a tile takes a whole block
  const int64_t size = is_line(access)         ? cuda::kThreadsPerBlock * cuda::kItemsPerThread / copies + 1
                       : access == kTiledWords ? 12
                       : tiled                 ? 9
                                               : 32 / item + 1;
  std::vector<CopyDim> dims(rank, plain_dim(2, 0, 0));
  dims.back() = dims[rank - (tiled ? 2 : 1)] = plain_dim(size, 0, 0);
  int64_t dst_stride = access == kLineWithGaps ? 2 : 1, src_stride = loads_vectors(access) || tiled ? 1 : 2;
  for (std::size_t k = rank; k-- > 0;) {
    dims[k].dst_stride = std::exchange(dst_stride, dst_stride * dims[k].size + (access == kStridedWide ? 0 : 4));
    dims[k].src_stride = std::exchange(src_stride, src_stride * dims[k].size + 32);
  }
  if (tiled) std::swap(dims[rank - 1].src_stride, dims[rank - 2].src_stride);
  if (is_windowed(access)) dims.back().begin = 1, dims.back().count = size - 1;
  AffineCopies plan{item, {}};
  int64_t dst_last = 0, src_last = 0;
  for (const CopyDim& d : dims) {
    dst_last += (d.size - 1) * d.dst_stride;
    src_last += (d.count - 1) * d.src_stride;
  }
  for (int64_t k = 0; k < copies; ++k)
    plan.copies.push_back({take(dst_last + 1, item), take(src_last + 1, item), dims});
  cuda::execute(std::move(plan), nullptr);
}

void execute_reverse(const std::string& way, bool words, int64_t item, std::size_t rank) {
  const bool panels = way == "panels";
  const std::size_t axis = way == "rows" ? rank - 1 : panels ? rank - 2 : 0;
  std::vector<ReverseDim> dims(rank, {2, 0, 0, 0, false});
  dims.back().size = words ? 64 : panels ? 63 : 32 / item + 1;
  if (panels) dims[axis].size = 16;
  int64_t stride = 1, length_stride = 1, last = 0;
  for (std::size_t k = rank; k-- > 0;) {
    dims[k].is_axis = k == axis;
    if (!dims[k].is_axis && (panels || k + 1 < rank))
      dims[k].length_stride = std::exchange(length_stride, length_stride * dims[k].size);
    dims[k].dst_stride = dims[k].src_stride = std::exchange(stride, stride * dims[k].size + 4);
    last += (dims[k].size - 1) * dims[k].dst_stride;
  }
  std::vector<int32_t> lengths(static_cast<std::size_t>(length_stride));
  for (int32_t& n : lengths) n = int32_t(any(-2, dims[axis].size + 2));
  ReverseCopy plan{item, take(last + 1, item), take(last + 1, item), lengths.data(), LengthType::kInt32, {}};
  for (const ReverseDim& d : dims) plan.dims.push_back(d);
  cuda::execute(std::move(plan), nullptr);
}

// What launches a kernel is in its mangled name: the arguments of the template.
void execute_for(const cuda_compiled::Kernel& kernel) {
  static const std::regex form(R"(.*(copy|reverse)_([a-z]+)I(\w|N\w+Item16E)(?:([il])Li(\d+)E)?)"
                               R"((?:L\w+AccessPatternE(\d+)ELi(\d+)E|Lb(\d)E)?EEv.*)");
  std::cmatch is;
  if (!std::regex_match(kernel.name, is, form)) cuda_compiled::fail("there is no plan for %s", kernel.name);
  const auto number = [&](std::size_t k) { return std::stoi("0" + is[k].str()); };
  const int64_t item = is[3].length() > 1 ? kMaxItemBytes : int64_t(1) << std::string_view("htjm").find(*is[3].first);
  const auto rank = std::size_t(number(5));
  cuda_on_host::max_32_bit_index = is[4] == "l" ? 0 : INT32_MAX;
  const auto before = *kernel.visits;
  if (is[2] == "interleaved")
    execute_interleaved(number(8) > 0, item);
  else if (is[1] == "copy")
    execute_affine(cuda::AccessPattern(number(6)), item, rank, number(7));
  else
    execute_reverse(is[2].str(), number(8) > 0, item, rank);
  memory.clear();
  if (*kernel.visits == before) cuda_compiled::fail("the plan for %s launches another kernel", kernel.name);
}

}  // namespace

int main() {
  std::for_each(cuda_compiled::kernels().begin(), cuda_compiled::kernels().end(), execute_for);
  std::printf("%zu kernels right\n", cuda_compiled::kernels().size());
}
