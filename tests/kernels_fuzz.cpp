// Runs both engines on random plans, without torch and under the sanitizers, and compares their results with the
// definitions of the plans.
//
//     kernels_fuzz CASES SEED           both engines
//     kernels_fuzz CASES SEED cpu       the CPU engine alone
//     kernels_fuzz CASES SEED threads   the CPU engine alone, on threads
//     kernels_fuzz alignments [cpu]     every alignment, with rows and lengths around every width of a vector;
//                                       and every way that the engine has, whatever the size of the items
//
// Buffers are exactly as large as a plan reaches, so that AddressSanitizer sees any access beyond it; what lies between
// the written items must stay as it was, and without AddressSanitizer what lies around them too.
#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <span>
#include <string>
#include <thread>

#include "../csrc/kernels/cpu/engine.h"
#include "../csrc/kernels/cpu/huge_pages.h"
#include "../csrc/kernels/cuda/device.h"
#include "plan_items.h"
#include "random_numbers.h"

using namespace torch_dml_ops;

namespace {

constexpr bool kEngines[] = {false, true};  // the CPU's, CUDA's
std::span<const bool> engines = kEngines;
bool threaded = false;

// Every odd split there can be: one part after another, or each on a thread of its own.
void ragged_parallel_for(int64_t total, int64_t, const std::function<void(int64_t, int64_t)>& body) {
  std::vector<std::jthread> threads;
  for (int64_t begin = 0; begin < total;) {
    const int64_t end = chance(0.3) || threads.size() == 7 ? total : any(begin + 1, total);
    if (threaded)
      threads.emplace_back(body, begin, end);
    else
      body(begin, end);
    begin = end;
  }
}

int64_t any_item() { return int64_t(1) << any(0, 4); }

// As many items as fill a vector, a cache line, or what else the engine counts in bytes, or one more or fewer.
int64_t around_vectors(int64_t item) {
  const int64_t bytes = one_of<int64_t>({8, 16, 32, 48, 64, 128, 256, 512, 1024});
  return std::max<int64_t>(bytes / item + any(-1, 1), 1);
}

int64_t any_size(int64_t item) {
  if (chance(0.5)) return std::min<int64_t>(around_vectors(item), 300);
  return one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100});
}

std::vector<int64_t> any_sizes(int64_t item) {
  if (chance(0.12)) return std::vector<int64_t>(std::size_t(any(9, 11)), 2);  // more than one launch takes
  std::vector<int64_t> sizes(std::size_t(any(1, chance(0.1) ? 11 : 4)));
  int64_t numel = 1;
  for (int64_t& n : sizes) {
    n = any_size(item);
    while (numel * n > 6000) n = (n + 1) / 2 == n ? 1 : (n + 1) / 2;
    numel *= n;
  }
  return sizes;
}

// Strides in some order of dimensions, with gaps now and then; no two indices meet.
std::vector<int64_t> any_strides(const std::vector<int64_t>& sizes) {
  const std::vector<std::size_t> order = any_order(sizes.size(), chance(0.4));
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = chance(0.2) ? any(1, 4) : 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= sizes[order[k]];
    if (chance(0.2)) stride += chance(0.5) ? 1 : any(0, 9);
  }
  return strides;
}

struct Buffer {
  std::vector<char> bytes;
  int64_t first = 0;  // the byte of index 0

  // Room for exactly what sizes and strides reach, filled with random bytes.
  Buffer(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t item) {
    int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) (strides[d] < 0 ? low : high) += (sizes[d] - 1) * strides[d];
    first = -low * item;
    bytes = any_bytes((high - low + 1) * item);
  }
};

// Memory that starts `offset` bytes past a 16-byte boundary and ends where the plan's reach ends.
struct Placed {
  explicit Placed(const std::vector<char>& bytes, int64_t offset)
      : size(bytes.size()),
        before(kAround + std::size_t(offset)),
        memory(static_cast<char*>(std::malloc(before + size + kAround))),
        data(memory + before) {
    std::memset(memory, kUntouched, before);
    std::memcpy(data, bytes.data(), size);
    std::memset(data + size, kUntouched, kAround);
  }
  // Zeros: of what is not touched, the system has only to keep the addresses.
  explicit Placed(int64_t bytes)
      : size(std::size_t(bytes)),
        before(0),
        memory(static_cast<char*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        data(memory),
        is_mapped(true) {}
  ~Placed() {
    if (is_mapped)
      munmap(memory, size);
    else
      std::free(memory);
  }
  Placed(const Placed&) = delete;
  bool is_untouched_around() const {
    const auto is_untouched = [](char byte) { return byte == kUntouched; };
    return std::all_of(memory, data, is_untouched) && std::all_of(data + size, data + size + kAround, is_untouched);
  }
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t kAround = 0;
#else
  static constexpr std::size_t kAround = 64;
#endif
  static constexpr char kUntouched = 90;
  std::size_t size, before;
  char* memory;
  char* data;
  bool is_mapped = false;
};

// Whether engines write what the plan says. `memory` is all that has to be as it says afterwards.
template <class Plan>
bool right(const char* what, const Plan& plan, const std::list<Placed>& memory, std::span<const bool> by = engines) {
  std::vector<std::vector<char>> before, expected;
  for (const Placed& m : memory) before.emplace_back(m.data, m.data + m.size);
  for_each_item(plan, [&](char* to, const char* from) {
    if (from)
      std::memcpy(to, from, std::size_t(plan.item_size));
    else
      std::memset(to, 0, std::size_t(plan.item_size));
  });
  for (const Placed& m : memory) expected.emplace_back(m.data, m.data + m.size);
  for (const bool cuda : by) {
    auto bytes = before.begin();
    for (const Placed& m : memory) std::memcpy(m.data, (bytes++)->data(), m.size);
    if (cuda)
      cuda::execute(plan, nullptr);
    else
      cpu::execute(plan, ragged_parallel_for);
    bytes = expected.begin();
    for (const Placed& m : memory)
      if (std::memcmp(m.data, (bytes++)->data(), m.size) != 0 || !m.is_untouched_around()) {
        std::printf("%s is wrong on %s\n", what, cuda ? "CUDA" : "the CPU");
        return false;
      }
  }
  return true;
}

int64_t any_offset(int64_t item) { return chance(0.5) ? 0 : chance(0.1) ? any(0, 15) : item * any(0, 16 / item - 1); }

bool affine_case() {
  const int64_t item = any_item(), pieces = chance(0.2) ? any(1, 70) : 1;
  const bool windowed = chance(0.4);
  AffineCopies plan{item, {}};
  std::list<Placed> sources, written;
  for (int64_t p = 0; p < pieces; ++p) {
    const std::vector<int64_t> sizes = pieces > 1 ? std::vector<int64_t>{any(1, 5), any_size(item)} : any_sizes(item);
    const std::vector<int64_t> dst_strides = any_strides(sizes);
    std::vector<CopyDim> dims;
    std::vector<int64_t> counts, src_strides;
    for (const int64_t n : sizes) {
      CopyDim d = plain_dim(n, 0, 0);
      if (windowed && chance(0.7)) {
        d.step = chance(0.5) ? 1 : any(2, 5);
        d.count = any(1, 1 + (n - 1) / d.step);
        const int64_t last = n - 1 - (d.count - 1) * d.step;
        d.begin = chance(0.3) ? 0 : chance(0.4) ? last : any(0, last);
      }
      dims.push_back(d);
      counts.push_back(d.count);
    }
    src_strides = any_strides(counts);
    if (chance(0.3)) src_strides = dst_strides;  // the case in which dimensions merge
    for (int64_t& s : src_strides) s = chance(0.2) ? -s : chance(0.1) ? 0 : chance(0.1) ? 2 * s : s;
    if (chance(0.3)) {  // every few of the source's items, often backwards
      const int64_t apart = any(1, 5);
      for (int64_t& s : src_strides) s *= apart;
      if (chance(0.5)) src_strides.back() = -src_strides.back();
    }
    const Buffer src(counts, src_strides, item), dst(sizes, dst_strides, item);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      dims[d].dst_stride = dst_strides[d];
      dims[d].src_stride = src_strides[d];
    }
    const Placed& from = sources.emplace_back(src.bytes, any_offset(item));
    const Placed& to = written.emplace_back(dst.bytes, any_offset(item));
    plan.copies.push_back({to.data + dst.first, from.data + src.first, dims});
  }
  return right("affine_copy", plan, written);
}

// The pieces of a split or a join: rows of one tensor, from or to pieces of it. Many are single items in turn. Most are
// neighbours but for one thing at the most: a gap behind each row, a piece's items apart, another order, a piece among
// rows of its own, one in every other row, or two whose rows reach into each other's.
bool pieces_case(int64_t item) {
  const bool ones = chance(0.5), join = chance(0.6), backwards = chance(0.2);
  const int64_t count = ones ? any(2, chance(0.2) ? 9 : 5) : any(1, chance(0.1) ? 70 : chance(0.5) ? 4 : 20);
  const int64_t rows = any(1, ones ? chance(0.1) ? 9000 : 400 : 40);
  std::vector<int64_t> sizes;
  for (int64_t k = 0; k < count; ++k)
    sizes.push_back(ones                   ? 1
                    : chance(0.3) && k > 0 ? sizes.back()
                    : chance(0.4)          ? around_vectors(item)
                                           : any(1, chance(0.5) ? 4 : 200));
  const int64_t oddity = chance(0.3) ? 0 : chance(0.2) ? 5 : any(0, 8);
  const auto odd = [&](int64_t number) { return oddity == number || (oddity == 8 && chance(0.5)); };
  if (oddity == 6)
    sizes = {2, 2};
  else if (!ones && chance(oddity == 5 ? 0.9 : 0.3))  // those of a cache line or more share lines
    for (int64_t& size : sizes) size += 64 / item;
  const int64_t within = oddity == 6 ? 3 : 1;  // from an item of a row to the next one
  const int64_t gap = odd(1) ? chance(0.6) ? 1 : any(2, 9) : 0, apart = odd(2) ? any(2, 4) : 1;
  const int64_t stride = std::accumulate(sizes.begin(), sizes.end(), gap);
  const std::vector<std::size_t> order = any_order(sizes.size(), odd(3));
  const std::size_t below = odd(4) ? order[order.size() / 2] : sizes.size();  // the piece with rows of its own
  const std::size_t sparse = odd(5) ? order.back() : sizes.size();            // the one in every other row
  const int64_t offset = chance(0.5) ? 0 : item * any(0, 16 / item - 1);
  std::list<Placed> memory;
  const Placed& whole = memory.emplace_back(any_bytes((oddity < 4 ? rows : 3 * rows) * stride * item), offset);
  std::vector<AffineCopy> copies(sizes.size());
  int64_t at = 0;
  for (const std::size_t k : order) {
    const int64_t size = sizes[k], last = backwards ? size - 1 : 0;  // which of the source's items is read first
    const int64_t pitch = k == sparse ? 2 * stride : stride, sign = backwards ? -1 : 1;
    const int64_t place = at + (k == below ? rows * stride : 0);
    const Placed& placed = memory.emplace_back(any_bytes(rows * size * apart * item), offset);
    char* in_whole = whole.data + (place + (join ? 0 : last * within)) * item;
    char* piece = placed.data + (join ? last * apart : 0) * item;
    if (join)
      copies[k] = {in_whole, piece, {plain_dim(rows, pitch, size * apart), plain_dim(size, within, sign * apart)}};
    else
      copies[k] = {piece, in_whole, {plain_dim(rows, size * apart, pitch), plain_dim(size, apart, sign * within)}};
    at += size;
  }
  return right(join ? "join" : "split", AffineCopies{item, copies}, memory);
}

// A matrix that is transposed, its rows perhaps in descending order. Its sizes are at and beside those of squares and
// tiles, or they and most addresses are multiples of 4 bytes.
bool transposed_case(int64_t item) {
  const bool words = item <= 4 && chance(0.5), backwards = chance(0.4);
  const auto side = [&] {
    return chance(0.5) ? std::max<int64_t>(16 / item * any(1, 5) + any(-1, 1), 1)
                       : 64 * any(1, 2) + any(-1, 16 / item + 2);
  };
  const int64_t rows = words ? 4 * any(2, 40) : side(), row_stride = words ? 4 * any(2, 40) : side();
  const int64_t columns = std::max<int64_t>(row_stride - (chance(0.3) ? any(0, 7) : 0), 1);
  const int64_t offset = chance(0.3) ? item : 0;
  const Placed source(any_bytes(rows * row_stride * item), offset);
  std::list<Placed> out;
  out.emplace_back(std::vector<char>(std::size_t(rows * columns * item)), 0);
  const char* first = source.data + (backwards ? columns - 1 : 0) * item;
  const CopyDim outer = plain_dim(columns, rows, backwards ? -1 : 1), inner = plain_dim(rows, 1, row_stride);
  return right("a transposed copy", AffineCopies{item, {{out.front().data, first, {outer, inner}}}}, out);
}

template <class T>
bool reverse_case(LengthType type) {
  const int64_t item = any_item();
  const std::vector<int64_t> sizes = any_sizes(item), dst_strides = any_strides(sizes);
  std::vector<int64_t> src_strides = chance(0.4) ? dst_strides : any_strides(sizes);
  for (int64_t& s : src_strides) s = chance(0.1) ? 0 : s;
  const auto axis = std::size_t(any(0, int64_t(sizes.size()) - 1));
  std::vector<int64_t> length_sizes = sizes;
  length_sizes[axis] = 1;
  std::vector<int64_t> length_strides = any_strides(length_sizes);
  for (int64_t& s : length_strides) s = chance(0.3) ? 0 : s;
  length_strides[axis] = 0;
  const Buffer src(sizes, src_strides, item), dst(sizes, dst_strides, item);
  int64_t last_length = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last_length += (length_sizes[d] - 1) * length_strides[d];
  std::vector<T> lengths(std::size_t(last_length + 1));
  for (T& n : lengths)
    n = T(chance(0.05)  ? int64_t(random_bits())
          : chance(0.3) ? std::min(around_vectors(item), sizes[axis])
                        : any(-2, sizes[axis] + 2));
  const Placed source(src.bytes, any_offset(item));
  std::list<Placed> out;
  const Placed& to = out.emplace_back(dst.bytes, any_offset(item));
  ReverseCopy plan{item, to.data + dst.first, source.data + src.first, lengths.data(), type, {}};
  for (std::size_t d = 0; d < sizes.size(); ++d)
    plan.dims.push_back({sizes[d], dst_strides[d], src_strides[d], length_strides[d], d == axis});
  return right("reverse_copy", plan, out);
}

// Rows of every stride-th of the source's items, every step-th of the destination's, with zeros between, before and
// after them.
struct Rows {
  int64_t item, n, stride;
  int64_t src_offset = 0, dst_offset = 0;
  int64_t before = 0, after = 0, step = 1;
  int64_t rows = 2, gap = 1;  // the gap puts rows at different offsets
  bool backwards = false;     // the source's last row is the first
};

bool row_case(const Rows& c) {
  const int64_t item = c.item, reach = (c.n - 1) * std::abs(c.stride) + 1;
  const int64_t size = c.before + (c.n - 1) * c.step + 1 + c.after;
  const int64_t src_pitch = reach + 1, dst_pitch = size + c.gap;
  const Placed src(any_bytes(((c.rows - 1) * src_pitch + reach) * item), c.src_offset);
  std::list<Placed> dst;
  dst.emplace_back(any_bytes((c.rows * dst_pitch - c.gap) * item), c.dst_offset);
  const int64_t first = (c.stride < 0 ? reach - 1 : 0) + (c.backwards ? (c.rows - 1) * src_pitch : 0);
  const CopyDim rows = plain_dim(c.rows, dst_pitch, c.backwards ? -src_pitch : src_pitch);
  const CopyDim row{size, 1, c.stride, c.before, c.step, c.n};
  return right("a row", AffineCopies{item, {{dst.front().data, src.data + first * item, {rows, row}}}}, dst);
}

// Three rows of n items, often with a gap between them, of which the first is reversed as far as `length`, the second
// whole and the third not.
bool row_reversal_case(int64_t item, int64_t src_offset, int64_t dst_offset, int64_t n, int64_t length) {
  const int32_t lengths[] = {int32_t(length), int32_t(n + 1), 0};
  const int64_t pitch = n + (chance(0.3) ? 1 : 0);
  const Placed src(any_bytes(3 * n * item), src_offset);
  std::list<Placed> dst;
  dst.emplace_back(any_bytes((2 * pitch + n) * item), dst_offset);
  ReverseCopy plan{item, dst.front().data, src.data, lengths, LengthType::kInt32, {}};
  plan.dims = {{3, pitch, n, 1, false}, {n, 1, 1, 0, true}};
  return right("a reversed row", plan, dst);
}

// Two matrices of n rows, each column of them reversed up to a length of its own.
bool panel_case(int64_t item, int64_t offset, int64_t n, int64_t columns) {
  std::vector<int64_t> lengths(std::size_t(2 * columns));
  for (int64_t& length : lengths) length = any(-1, n + 1);
  const Placed src(any_bytes(2 * n * columns * item), offset);
  std::list<Placed> dst;
  dst.emplace_back(std::vector<char>(src.size), offset);
  ReverseCopy plan{item, dst.front().data, src.data, lengths.data(), LengthType::kInt64, {}};
  plan.dims = {
      {2, n * columns, n * columns, columns, false}, {n, columns, columns, 0, true}, {columns, 1, 1, 1, false}};
  return right("a panel", plan, dst);
}

bool rows_case() {
  const int64_t item = any_item(), src_offset = any(0, 15), dst_offset = any(0, 15);
  const int64_t n = chance(0.7) ? around_vectors(item) : any(1, 500);
  if (chance(0.2)) return row_reversal_case(item, src_offset, dst_offset, n, any(0, n));
  if (chance(0.2)) {  // around the sizes of panels, and of what gathers take at once
    const int64_t columns = 16 * one_of<int64_t>({1, 2, 4, 8}) + any(-1, 1);
    return panel_case(item, chance(0.5) ? 0 : item, any(1, 100), columns);
  }
  Rows c{.item = item, .n = n, .stride = any(1, chance(0.1) ? 9 : 4) * (chance(0.5) ? 1 : -1)};
  if (chance(0.5)) c.src_offset = src_offset, c.dst_offset = dst_offset;
  if (chance(0.4)) {
    c.before = chance(0.4) ? 0 : any(1, 40);
    c.after = chance(0.4) ? 0 : any(1, 40);
    c.step = chance(0.6) ? 1 : any(2, 5);
  }
  c.rows = any(1, 4);
  c.gap = any(0, 1);
  c.backwards = chance(0.3);
  return row_case(c);
}

// Often so low that small cases are executed as large ones are.
void choose_tuning(bool non_temporal = chance(0.5), bool low = chance(0.5)) {
  cpu::tuning = {};
  if (non_temporal) cpu::tuning.non_temporal_bytes = 300;
  if (low)
    cpu::tuning = {.grain_bytes = 256,
                   .chunk_bytes = 1024,
                   .non_temporal_bytes = cpu::tuning.non_temporal_bytes,
                   .staging_bytes = 256,
                   .prefetch_bytes = 300,
                   .prefetch_rows_from_bytes = 300,
                   .short_segment_bytes = 64,
                   .non_temporal_segment_bytes = 64,
                   .non_temporal_strided_segment_bytes = 64,
                   .panel_bytes = 4096};
}

constexpr int kDevices = 100;

void choose_devices() {
  random_bits.seed(0);
  for (int k = 0; k < kDevices; ++k) {
    cuda_on_host::Device& device = cuda_on_host::devices[std::size_t(k)];
    device.sm_count = int(any(1, 3));
    device.max_shared_bytes_per_block = int(any(1, 100)) << 10;
    device.reserved_shared_bytes_per_block = chance(0.5) ? 0 : 1 << 10;
    device.shared_bytes_per_sm = device.max_shared_bytes_per_block + (int(any(1, 100)) << 10);
    device.driver_version = chance(0.5) ? 12000 : 13000;
  }
}

bool run_case() {
  cuda_on_host::max_32_bit_index = chance(0.2) ? 0 : INT32_MAX;
  cuda_on_host::reversed = chance(0.5);
  cuda_on_host::current_device = int(any(0, kDevices - 1));
  choose_tuning();
  switch (any(0, 12)) {
    case 0:
      return reverse_case<int32_t>(LengthType::kInt32);
    case 1:
      return reverse_case<int64_t>(LengthType::kInt64);
    case 2:
      return reverse_case<uint32_t>(LengthType::kUInt32);
    case 3:
      return reverse_case<uint64_t>(LengthType::kUInt64);
    case 4:
    case 5:
    case 6:
      return pieces_case(any_item());
    case 7:
    case 8:
      return rows_case();
    case 9:
      return transposed_case(any_item());
    default:
      return affine_case();
  }
}

// A few items so far apart that the offset of one more would overflow 32 bits, which UBSan sees.
bool far_apart_case() {
  cuda_on_host::max_32_bit_index = INT32_MAX;
  constexpr int64_t kApart = int64_t(1) << 30, kRows = 93, kRowApart = 23'090'848;
  const Placed src(kApart + 3), rows(2 * (kRows - 1) * kRowApart + 8);
  const std::span<const bool> cuda = std::span(kEngines).last(1);
  // Every second index of 100 reads, but only two of them.
  for (int64_t k = 0; k < 6; ++k) src.data[k / 3 * kApart + k % 3] = char(k + 1);
  std::list<Placed> dst;
  dst.emplace_back(std::vector<char>(300, 9), 0);
  const AffineCopies window{1, {{dst.front().data, src.data, {{100, 3, kApart, 0, 2, 2}, plain_dim(3, 1, 1)}}}};
  // Ranges that begin at different items of a vector.
  for (int64_t k = 0; k < 4 * kRows; ++k) {
    const auto value = int16_t(k);
    std::memcpy(rows.data + 2 * (k / 4 * kRowApart + k % 4), &value, 2);
  }
  const int64_t lengths[] = {0};
  std::list<Placed> ranges;
  ranges.emplace_back(std::vector<char>(2 * (3 * 746 + kRows), 9), 0);
  ReverseCopy plan{2, ranges.front().data, rows.data, lengths, LengthType::kInt64, {}};
  plan.dims = {{4, 746, 1, 0, false}, {kRows, 1, kRowApart, 0, false}, {1, 372, 1, 0, true}};
  // Columns whose last row is further away than 32 bits can say.
  constexpr int64_t kColumns = 16;
  const Placed far_rows(4 * (2 * kApart + kColumns));
  for (int64_t r = 0; r < 3; ++r) std::memset(far_rows.data + 4 * r * kApart, int(r + 1), 4 * kColumns);
  const std::vector<int64_t> whole(kColumns, 3);
  std::list<Placed> columns;
  columns.emplace_back(std::vector<char>(3 * 4 * kColumns), 0);
  ReverseCopy panel{4, columns.front().data, far_rows.data, whole.data(), LengthType::kInt64, {}};
  panel.dims = {{3, kColumns, kApart, 0, true}, {kColumns, 1, 1, 1, false}};
  return right("a window far apart", window, dst, cuda) && right("rows far apart", plan, ranges, cuda) &&
         right("columns far apart", panel, columns);
}

// Returns how many there were, or -1.
int64_t alignment_cases() {
  if (!far_apart_case()) return -1;
  int64_t cases = 0;
  for (int64_t item = 1; item <= 16; item *= 2) {
    const int64_t v = 16 / item;  // items of a vector
    for (int k = 0; k < 200; ++k, cases += 2) {
      choose_tuning();
      if (!pieces_case(item) || !transposed_case(item)) return -1;
    }
    for (int k = 0; k < 16; ++k, ++cases) {  // rows that are reversed whole, and prefetched
      choose_tuning(k % 2 > 0, k / 2 % 2 > 0);
      if (!row_reversal_case(item, 0, 0, 12 * v + any(-1, 1), any(0, 12 * v))) return -1;
    }
    for (const int64_t stride : {-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5}) {
      for (int k = 0; k < 48; ++k, ++cases) {
        choose_tuning(k % 2 > 0, k / 2 % 2 > 0);
        const int64_t n = std::array{100 * v, 24 * v, 1024 / item + any(-1, 1)}[std::size_t(k / 16)];
        if (!row_case({.item = item, .n = n, .stride = stride, .gap = k / 4 % 2, .backwards = k / 8 % 2 > 0}))
          return -1;
      }
      for (int k = 0; k < 20; ++k, ++cases) {
        choose_tuning(k % 2 > 0, k / 2 % 2 > 0);
        if (!row_case({.item = item, .n = any(2, 20), .stride = stride, .before = any(1, 9), .step = 1 + k / 4}))
          return -1;
      }
      for (const int64_t columns : {int64_t(32), int64_t(45), int64_t(96), int64_t(260), 128 + 24 / item}) {
        choose_tuning();
        const int64_t few = 32 / item + 1;  // rows or columns that are left where vectors end
        if (!panel_case(item, chance(0.5) ? 0 : item, any(1, chance(0.5) ? few : 300),
                        columns + (chance(0.5) ? any(0, few) : 0)))
          return -1;
        ++cases;
      }
      // So long a row that each SM gets chunks of it.
      for (int k = 0; k < 2; ++k, ++cases)
        if (!row_case({.item = item, .n = 13'000 + k, .stride = stride, .rows = 1})) return -1;
    }
    for (int64_t src_offset = 0; src_offset < 16; ++src_offset) {
      for (int64_t dst_offset = 0; dst_offset < 16; ++dst_offset) {
        for (const int64_t n :
             {int64_t(1), v / 2 - 1, v / 2, v - 1, v, v + 1, 2 * v - 1, 2 * v, 2 * v + 1, 5 * v + 2}) {
          if (n < 1) continue;
          cuda_on_host::max_32_bit_index = chance(0.5) ? 0 : INT32_MAX;
          const auto stride = one_of<int64_t>({1, -1, 2, -2, 3, -3, 4, -4});
          const int64_t margin = chance(0.5) ? 2 : 0;
          const int64_t length = any(std::max<int64_t>(n - v - 1, 0), n);
          choose_tuning();
          const Rows rows{.item = item,
                          .n = n,
                          .stride = stride,
                          .src_offset = src_offset,
                          .dst_offset = dst_offset,
                          .before = margin,
                          .after = margin};
          if (!row_case(rows) || !row_reversal_case(item, src_offset, dst_offset, n, length)) {
            std::printf("items of %d bytes, %d and %d past a boundary, %d a row\n", int(item), int(src_offset),
                        int(dst_offset), int(n));
            return -1;
          }
          cases += 2;
        }
      }
    }
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "tuning") {
    const cpu::Tuning of =
        cpu::tuning_for(std::atoll(argv[2]), std::atoll(argv[3]), std::string_view(argv[4]) == "amd");
    std::printf("%lld %lld %lld %lld\n", (long long)of.chunk_bytes, (long long)of.panel_bytes,
                (long long)of.non_temporal_bytes, (long long)of.prefetch_rows_from_bytes);
    return 0;
  }
  const std::string last = argv[argc - 1];
  threaded = last == "threads";
  if (threaded || last == "cpu") engines = engines.first(1);  // the other's fibers are unknown to ThreadSanitizer
  if (argc > 1 && std::string(argv[1]) == "alignments") {
    const int64_t cases = alignment_cases();
    if (cases >= 0) std::printf("%d cases right\n", int(cases));
    return cases < 0;
  }
  const int cases = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const Placed large(std::vector<char>(40 << 20), 1), small(std::vector<char>(1 << 20), 1);
  for (const Placed* memory : {&large, &small})
    cpu::prefault_huge_pages(memory->data, int64_t(memory->size), ragged_parallel_for);
  choose_devices();
  for (int k = 0; k < cases; ++k) {
    random_bits.seed(seed * 1'000'003 + std::uint64_t(k));
    if (!run_case()) {
      std::printf("in case %d of seed %llu\n", k, static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  std::printf("%d cases right\n", cases);
  return 0;
}
