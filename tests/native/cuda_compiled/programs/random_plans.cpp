// Executes a plan for each compiled kernel, and random plans, which check_plans.cpp checks.
//
//     random_plans CASES SEED [SECONDS]        after so many seconds of the processor's time, no more are begun
//
// Of random plans, sizes are small, edges of windows and lengths lie at and beside the edges of vectors, and devices
// differ, so that small plans run through the code of large ones.
#include <ctime>
#include <regex>
#include <utility>

#include "../../../../csrc/kernels/cuda/access_pattern.h"
#include "../../plan_items.h"
#include "../../random_numbers.h"
#include "addresses.h"
#include "check_plans.h"
#include "launches.h"

using namespace torch_dml_ops;

namespace {

using Sizes = std::vector<int64_t>;

bool tidy = false;  // whether sizes, strides and addresses suit words of 4 bytes, however small the items

// At and beside a multiple of `unit`, from 0 to `most`.
int64_t near_multiple(int64_t unit, int64_t most) {
  return std::clamp<int64_t>(any(0, most / unit) * unit + any(-1, 1), 0, most);
}

// ---- Memory ----

constexpr int64_t kMemoryBytes = int64_t(48) << 30;  // addresses; of most of it nothing is touched
constexpr int64_t kFarBytes = 4 << 20;               // of a source that is filled only where it is read

void fill(char* at, int64_t bytes) {
  for (int64_t k = 0; k < bytes; k += 8) {
    const uint64_t bits = random_bits();
    std::memcpy(at + k, &bits, std::size_t(std::min<int64_t>(bytes - k, 8)));
  }
}

// Hands out memory for the tensors of a case, one behind another.
class Memory {
 public:
  explicit Memory(char* base) : base_(base) {}

  // For items `low` to `high`; returns where item 0 is. Most items are aligned to their size, or to 16 bytes.
  char* take(int64_t low, int64_t high, int64_t item) {
    const int64_t offset = tidy || chance(0.4) ? 0 : chance(0.1) ? any(0, 15) : any(0, 32 / item - 1) * item;
    char* at = base_ + (used_ + 15) / 16 * 16 + offset;
    const int64_t bytes = (high - low + 1) * item;
    used_ = at - base_ + bytes + any(0, 40);
    if (used_ > kMemoryBytes) std::abort();
    if (bytes <= kFarBytes) fill(at, bytes);
    return at - low * item;
  }

 private:
  char* base_;
  int64_t used_ = 64;
};
char *dst_memory, *src_memory;

// ---- Sizes and strides ----

// Of at most so many items.
Sizes any_sizes(int64_t rank, int64_t numel) {
  Sizes sizes(static_cast<std::size_t>(rank));
  for (int64_t& n : sizes) {
    const int64_t most = std::min(numel, rank > 3 ? any(2, 5) : chance(0.5) ? 40 : any(1, numel));
    n = any(1, most);
    numel /= n;
  }
  std::shuffle(sizes.begin(), sizes.end(), random_bits);
  return sizes;
}

// Strides in some order of dimensions, from `inner` on, with gaps; no two indices meet.
Sizes any_strides(const Sizes& sizes, double shuffled, double gaps, int64_t inner = 1) {
  const std::vector<std::size_t> order = any_order(sizes.size(), chance(shuffled));
  Sizes strides(sizes.size());
  for (std::size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = inner;
    inner *= sizes[order[k]];
    if (chance(gaps)) inner += tidy ? 4 * any(0, 10) : chance(0.3) ? 1 : any(0, 40);
  }
  return strides;
}

// ---- Affine copies ----

enum class Kind {
  kDense,
  kBackward,     // the source's last stride is -1
  kStrided,      // or some other number
  kWindow,       // some indices are zero instead, in any dimension
  kWindowEdges,  // only in the last one, with edges at and beside those of vectors
  kTiles,
  kNarrow,  // the last size is smaller than a vector
  kManyDims,
  kFar,  // few items, so far apart that offsets need more than 31 bits
  kPieces,
  kLines,  // copies of one dimension, with gaps in the destination or without
  kReverseRows,
  kReverseOuter,
  kPanels,
  kCount,
};
const char* const kNames[] = {
    "dense", "backward", "strided", "window",       "window edges",       "tiles", "narrow", "many dims",
    "far",   "pieces",   "lines",   "reverse rows", "reverse outer axis", "panels"};
static_assert(std::size(kNames) == std::size_t(Kind::kCount));

Sizes copy_sizes(Kind kind, int64_t item, int64_t numel, bool is_piece) {
  if (kind == Kind::kManyDims) {
    Sizes sizes(std::size_t(any(9, 11)), 2);
    for (int64_t& n : sizes) n = chance(0.8) ? 2 : any(1, 3);
    return sizes;
  }
  if (kind == Kind::kTiles) {
    Sizes sizes(std::size_t(is_piece ? 2 : any(2, 5)));
    for (int64_t& n : sizes) n = any(1, 3);
    const int64_t most = is_piece ? 48 : 130;
    for (std::size_t k : {sizes.size() - 1, sizes.size() - 2})
      sizes[k] = tidy ? 4 * any(8, most / 4) : chance(0.3) ? 32 * any(1, most / 32) + any(-1, 1) : any(8, most);
    return sizes;
  }
  const int64_t vector = 16 / item;
  if (kind == Kind::kWindowEdges) return {any(1, 4), any(2, 12 * vector)};
  Sizes sizes = any_sizes(is_piece || chance(0.5) ? any(1, 4) : any(1, 8), numel);
  if (kind == Kind::kNarrow) sizes.back() = any(1, std::max<int64_t>(vector + 1, 3));
  return sizes;
}

CopyDim any_window(int64_t size) {
  CopyDim d = plain_dim(size, 0, 0);
  d.step = chance(0.6) ? 1 : any(2, 5);
  d.count = any(1, 1 + (size - 1) / d.step);
  const int64_t last = size - 1 - (d.count - 1) * d.step;
  d.begin = chance(0.3) ? 0 : chance(0.4) ? last : any(0, last);
  return d;
}

CopyDim window_with_edges(int64_t size, int64_t vector) {
  CopyDim d = plain_dim(size, 0, 0);
  d.step = chance(0.7) ? 1 : any(2, 5);
  d.begin = near_multiple(vector, size - 1);
  const int64_t most = 1 + (size - 1 - d.begin) / d.step;
  d.count = chance(0.3) ? most : std::clamp<int64_t>(near_multiple(vector, most), 1, most);
  return d;
}

std::vector<CopyDim> copy_dims(Kind kind, const Sizes& sizes, int64_t item) {
  std::vector<CopyDim> dims;
  for (const int64_t n : sizes) {
    const bool is_window = chance(kind == Kind::kWindow ? 0.6 : kind == Kind::kManyDims ? 0.15 : 0);
    dims.push_back(is_window ? any_window(n) : plain_dim(n, 0, 0));
  }
  if (kind == Kind::kWindowEdges) dims.back() = window_with_edges(sizes.back(), 16 / item);
  return dims;
}

// In items, of the source's sizes.
Sizes source_strides(Kind kind, const Sizes& counts, int64_t item) {
  if (kind == Kind::kTiles) {  // contiguous along the last dimension but one
    Sizes turned = counts;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    Sizes strides = any_strides(turned, 0, 0.2);
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
    for (int64_t& s : strides)
      if (!tidy && chance(0.2)) s = -s;
    return strides;
  }
  const bool is_plain = kind == Kind::kDense || kind == Kind::kBackward || kind == Kind::kWindowEdges;
  const int64_t inner = kind == Kind::kStrided ? any(2, 6) : 1;
  Sizes strides = any_strides(counts, is_plain ? 0.1 : 0.25, 0.3, inner);
  if (kind == Kind::kBackward || (kind == Kind::kWindowEdges && chance(0.4))) strides.back() = -strides.back();
  for (int64_t& s : strides) {
    if (!is_plain && chance(0.25)) s = -s;
    if (chance(0.04)) s = 0;
  }
  if (kind == Kind::kFar) {
    const auto k = std::size_t(any(0, int64_t(counts.size()) - 1));
    if (counts[k] > 1 && counts[k] < 60)
      strides[k] = (strides[k] < 0 ? -1 : 1) * (any(1, 8) << 28) / (counts[k] > 8 ? 8 * item : item);
  }
  return strides;
}

// A copy of these dimensions, in memory that it takes for them.
AffineCopy placed(const std::vector<CopyDim>& dims, int64_t item, Memory& dst, Memory& src) {
  int64_t low = 0, high = 0, dst_high = 0;
  for (const CopyDim& d : dims) {
    (d.src_stride < 0 ? low : high) += (d.count - 1) * d.src_stride;
    dst_high += (d.size - 1) * d.dst_stride;
  }
  AffineCopy copy{dst.take(0, dst_high, item), src.take(low, high, item), dims};
  if ((high - low + 1) * item > kFarBytes)
    for_each_item(AffineCopies{item, {copy}}, [&](char*, const char* from) {
      if (from) fill(const_cast<char*>(from), item);
    });
  return copy;
}

// `is_piece`: one of many.
AffineCopy any_copy(Kind kind, int64_t item, int64_t numel, bool is_piece, Memory& dst, Memory& src) {
  const Sizes sizes = copy_sizes(kind, item, numel, is_piece);
  std::vector<CopyDim> dims = copy_dims(kind, sizes, item);
  Sizes counts;
  for (const CopyDim& d : dims) counts.push_back(d.count);
  const bool is_ordered = kind == Kind::kTiles || kind == Kind::kWindowEdges;
  const int64_t inner = !is_ordered && kind != Kind::kNarrow && chance(0.06) ? any(2, 4) : 1;
  const Sizes dst_strides = any_strides(sizes, is_ordered ? 0 : 0.2, 0.25, inner);
  // Often the same, so that dimensions coalesce.
  const bool is_same = counts == sizes && !is_ordered && kind != Kind::kStrided && chance(0.25);
  const Sizes src_strides = is_same ? dst_strides : source_strides(kind, counts, item);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    dims[k].dst_stride = dst_strides[k];
    dims[k].src_stride = src_strides[k];
  }
  return placed(dims, item, dst, src);
}

// A split or a join along the last axis.
std::vector<AffineCopy> any_pieces(int64_t item, int64_t count, Memory& dst, Memory& src) {
  const bool is_join = chance(0.5), equal = chance(0.5), backward = !is_join && chance(0.2);
  const int64_t most = chance(0.2) ? 1 : chance(0.3) ? 4 : chance(0.8) ? 60 : 700;
  Sizes sizes;
  for (int64_t k = 0; k < count; ++k) sizes.push_back(equal && k > 0 ? sizes[0] : any(1, most));
  const int64_t stride =
      std::accumulate(sizes.begin(), sizes.end(), int64_t(0)) + (chance(0.4) ? chance(0.5) ? 1 : any(2, 9) : 0);
  const int64_t rows = any(1, std::clamp<int64_t>(40000 / stride, 1, chance(0.5) ? 30 : 300));
  char* whole = (is_join ? dst : src).take(0, rows * stride - 1, item);
  std::vector<AffineCopy> copies;
  int64_t at = 0;
  for (const int64_t n : sizes) {
    char* piece = (is_join ? src : dst).take(0, rows * n - 1, item);
    char* part = whole + (at + (backward ? n - 1 : 0)) * item;
    if (is_join)
      copies.push_back({part, piece, {plain_dim(rows, stride, n), plain_dim(n, 1, 1)}});
    else
      copies.push_back({piece, part, {plain_dim(rows, n, stride), plain_dim(n, 1, backward ? -1 : 1)}});
    at += n;
  }
  return copies;
}

std::vector<AffineCopy> any_lines(int64_t item, Memory& dst, Memory& src) {
  const int64_t count = any(1, 6), size = any(1, 12000);
  const bool equal = chance(0.5), gaps = chance(0.5);
  std::vector<AffineCopy> copies;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t n = equal ? size : any(1, size), dst_stride = gaps ? any(2, 7) : 1, src_stride = any(-4, 4);
    copies.push_back(placed({plain_dim(n, dst_stride, src_stride)}, item, dst, src));
  }
  return copies;
}

void execute_affine(Kind kind) {
  Memory dst(dst_memory), src(src_memory);
  AffineCopies plan{int64_t(1) << any(0, tidy ? 1 : 4), {}};
  if (kind == Kind::kLines) {
    plan.copies = any_lines(plan.item_size, dst, src);
  } else if (kind != Kind::kPieces) {
    const int64_t numel = chance(0.2) ? 40000 : chance(0.6) ? 9000 : 400;
    plan.copies.push_back(any_copy(kind, plan.item_size, numel, false, dst, src));
  } else if (chance(0.5)) {
    const auto each = one_of({Kind::kDense, Kind::kBackward, Kind::kStrided, Kind::kTiles, Kind::kNarrow});
    for (int64_t k = any(1, chance(0.2) ? 60 : 10); k > 0; --k)
      plan.copies.push_back(any_copy(each, plan.item_size, 400, true, dst, src));
  } else {
    plan.copies = any_pieces(plan.item_size, chance(0.3) ? any(1, 10) : any(1, 200), dst, src);
  }
  cuda::execute(std::move(plan), nullptr);
}

// ---- Reversals ----

// With any lengths.
void execute_reverse(const std::vector<ReverseDim>& dims, int64_t item) {
  Memory dst(dst_memory), src(src_memory);
  ReverseCopy plan{item, nullptr, nullptr, nullptr, LengthType(any(0, 3)), {}};
  int64_t low = 0, high = 0, dst_high = 0, last_length = 0, axis_size = 0;
  for (const ReverseDim& d : dims) {
    plan.dims.push_back(d);
    (d.src_stride < 0 ? low : high) += (d.size - 1) * d.src_stride;
    dst_high += (d.size - 1) * d.dst_stride;
    last_length += (d.size - 1) * d.length_stride;
    if (d.is_axis) axis_size = d.size;
  }
  plan.dst = dst.take(0, dst_high, item);
  plan.src = src.take(low, high, item);
  const int64_t bytes = length_bytes(plan.length_type);
  std::vector<char> lengths(std::size_t((last_length + 1) * bytes));
  for (int64_t k = 0; k <= last_length; ++k) {
    const int64_t n = chance(0.04)  ? int64_t(random_bits())
                      : chance(0.2) ? axis_size
                      : chance(0.4) ? near_multiple(16 / item, axis_size)
                                    : any(-2, axis_size + 2);
    std::memcpy(lengths.data() + k * bytes, &n, std::size_t(bytes));
  }
  plan.lengths = lengths.data();
  cuda::execute(std::move(plan), nullptr);
}

void execute_reverse(Kind kind) {
  const int64_t item = int64_t(1) << any(0, tidy ? 1 : 4);
  const bool rows = kind == Kind::kReverseRows, panels = kind == Kind::kPanels;
  const int64_t rank = panels ? any(2, 5) : chance(0.6) ? any(1, 4) : any(1, chance(0.1) ? 10 : 8);
  Sizes sizes = any_sizes(rank, rank <= 8 && chance(0.2) ? 30000 : 3000);
  const auto axis = std::size_t(rows ? rank - 1 : any(0, std::max<int64_t>(rank - 2, 0)));
  if (panels) {
    for (int64_t& n : sizes) n = std::min<int64_t>(n, 3);
    sizes[axis] = any(4, 120);
    sizes.back() = tidy ? 4 * any(2, 25) : chance(0.4) ? 16 * any(1, 6) + any(-1, 1) : any(8, 100);
  }
  const Sizes dst_strides = any_strides(sizes, panels ? 0.05 : 0.1, 0.25, chance(0.04) ? 2 : 1);
  Sizes src_strides = chance(0.5) ? dst_strides : any_strides(sizes, 0.15, 0.25, chance(0.1) ? 2 : 1);
  for (int64_t& s : src_strides) {
    if (chance(0.03)) s = 0;
    if (chance(0.05)) s = -s;
  }
  Sizes length_sizes = sizes;
  length_sizes[axis] = 1;
  Sizes length_strides = any_strides(length_sizes, 0.1, 0.1);
  for (int64_t& s : length_strides)
    if (chance(0.15)) s = 0;
  if (!panels && chance(0.8)) length_strides.back() = 0;
  if (panels && chance(0.95)) {
    length_strides.back() = std::max<int64_t>(length_strides.back(), 1);
    src_strides.back() = 1;
  }
  length_strides[axis] = 0;

  std::vector<ReverseDim> dims;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    dims.push_back({sizes[k], dst_strides[k], src_strides[k], length_strides[k], k == axis});
  execute_reverse(dims, item);
}

constexpr int kDevices = 100;

void choose_devices() {
  random_bits.seed(0);
  for (int k = 0; k < kDevices; ++k) {
    cuda_on_host::Device& device = cuda_on_host::devices[std::size_t(k)];
    device.sm_count = int(chance(0.8) ? any(1, 3) : any(4, 140));
    device.max_shared_bytes_per_block = int(chance(0.2) ? any(1, 100) : one_of<int64_t>({48, 99, 163, 227})) << 10;
    device.shared_bytes_per_sm = device.max_shared_bytes_per_block + (int(any(1, 100)) << 10);
    device.driver_version = chance(0.25) ? 12000 : 13000;
  }
}

// ---- A plan for each kernel ----
//
// With as many dimensions and copies as the kernel takes. Gaps keep dimensions from being merged; strides and odd sizes
// keep items from being moved several at a time.

void execute_interleaved(bool joined, int64_t item) {
  Memory dst(dst_memory), src(src_memory);
  constexpr int64_t kRows = 600, kSize = 3, copies = 16;
  char* whole = (joined ? dst : src).take(0, kRows * kSize * copies - 1, item);
  AffineCopies plan{item, {}};
  for (int64_t k = 0; k < copies; ++k) {
    char *part = whole + k * kSize * item, *piece = (joined ? src : dst).take(0, kRows * kSize - 1, item);
    if (joined)
      plan.copies.push_back({part, piece, {plain_dim(kRows, kSize * copies, kSize), plain_dim(kSize, 1, 1)}});
    else
      plan.copies.push_back({piece, part, {plain_dim(kRows, kSize, kSize * copies), plain_dim(kSize, 1, 1)}});
  }
  cuda::execute(std::move(plan), nullptr);
}

void execute_affine(cuda::AccessPattern access, int64_t item, std::size_t rank, int64_t copies) {
  using enum cuda::AccessPattern;
  Memory dst(dst_memory), src(src_memory);
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
  for (int64_t k = 0; k < copies; ++k) plan.copies.push_back(placed(dims, item, dst, src));
  cuda::execute(std::move(plan), nullptr);
}

void execute_reverse(Kind kind, bool words, int64_t item, std::size_t rank) {
  const bool panels = kind == Kind::kPanels;
  const std::size_t axis = kind == Kind::kReverseRows ? rank - 1 : panels ? rank - 2 : 0;
  std::vector<ReverseDim> dims(rank, {2, 0, 0, 0, false});
  dims.back().size = words ? 64 : panels ? 63 : 32 / item + 1;
  if (panels) dims[axis].size = 16;
  int64_t stride = 1, length_stride = 1;
  for (std::size_t k = rank; k-- > 0;) {
    dims[k].is_axis = k == axis;
    if (!dims[k].is_axis && (panels || k + 1 < rank))
      dims[k].length_stride = std::exchange(length_stride, length_stride * dims[k].size);
    dims[k].dst_stride = dims[k].src_stride = std::exchange(stride, stride * dims[k].size + 4);
  }
  execute_reverse(dims, item);
}

// What launches a kernel is in its mangled name: the arguments of the template.
void execute_for(const cuda_compiled::Kernel& kernel) {
  static const std::regex form(R"(.*(copy|reverse)_([a-z]+)I(\w|N\w+Item16E)(?:([il])Li(\d+)E)?)"
                               R"((?:L\w+AccessPatternE(\d+)ELi(\d+)E|Lb(\d)E)?EEv.*)");
  cuda_compiled::case_name = std::string("the plan for ") + kernel.name;
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
    execute_reverse(is[2] == "panels" ? Kind::kPanels
                    : is[2] == "rows" ? Kind::kReverseRows
                                      : Kind::kReverseOuter,
                    number(8) > 0, item, rank);
  if (*kernel.visits == before) cuda_compiled::fail("the plan for %s launches another kernel", kernel.name);
}

Kind any_kind() {
  if (chance(0.15)) return Kind::kPieces;
  if (chance(0.15)) return Kind::kWindowEdges;
  return Kind(any(0, int64_t(Kind::kCount) - 1));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t cases = argc > 1 ? std::atoll(argv[1]) : 1000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1e9;
  dst_memory = cuda_compiled::reserve(kMemoryBytes);
  src_memory = cuda_compiled::reserve(kMemoryBytes);
  choose_devices();
  tidy = true;
  cuda_on_host::current_device = kDevices;  // one SM
  std::for_each(cuda_compiled::kernels().begin(), cuda_compiled::kernels().end(), execute_for);
  int64_t done = 0, of_kind[std::size_t(Kind::kCount)] = {};
  for (; done < cases && double(std::clock()) / CLOCKS_PER_SEC < seconds; ++done) {
    random_bits.seed(seed * 1'000'003 + uint64_t(done));
    cuda_compiled::order_bits.seed(seed + uint64_t(done));
    const Kind kind = any_kind();
    tidy = chance(0.25);
    cuda_compiled::case_name = std::string("case ") + std::to_string(done) + " of seed " + std::to_string(seed) + ", " +
                               kNames[std::size_t(kind)];
    cuda_on_host::max_32_bit_index = chance(0.3) ? 0 : INT32_MAX;
    cuda_on_host::current_device = int(any(0, kDevices - 1));
    if (kind == Kind::kReverseRows || kind == Kind::kReverseOuter || kind == Kind::kPanels)
      execute_reverse(kind);
    else
      execute_affine(kind);
    ++of_kind[std::size_t(kind)];
    if (done % 500 == 499)  // the pages of sources that are far apart
      for (char* at : {dst_memory, src_memory}) madvise(at, std::size_t(kMemoryBytes), MADV_DONTNEED);
  }
  std::printf("%lld cases right:", static_cast<long long>(done));
  for (std::size_t k = 0; k < std::size(of_kind); ++k)
    std::printf(" %s %lld%s", kNames[k], static_cast<long long>(of_kind[k]), k + 1 < std::size(of_kind) ? "," : "\n");
  return 0;
}
