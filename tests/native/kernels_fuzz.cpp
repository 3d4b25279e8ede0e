// Runs both engines on random plans, without torch and under the sanitizers, and compares their results with the
// definitions of the plans.
//
//     kernels_fuzz CASES SEED           both engines
//     kernels_fuzz CASES SEED cpu       the CPU engine alone, or cuda
//     kernels_fuzz CASES SEED threads   the CPU engine alone, on threads
//     kernels_fuzz alignments [cpu]     every alignment, with rows and lengths around every width of a vector;
//                                       and every way that the engine has, whatever the size of the items;
//                                       alignments/5 are every fifth of these
//
// Every tensor of a plan, whether it is written or read, has a layout from one generator: with gaps between rows, far
// apart, and if it is read with strides that are negative, zero or let items overlap. Its memory lies between pages
// that must not be accessed; AddressSanitizer sees any access beyond what the strides reach. What lies between and
// around the items that are written must stay as it was, and so must all that is read.
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>

#include "../../csrc/kernels/cpu/engine.h"
#include "../../csrc/kernels/cpu/huge_pages.h"
#include "../../csrc/kernels/cuda/device.h"
#include "plan_items.h"
#include "random_numbers.h"

using namespace torch_dml_ops;

namespace {

constexpr bool kEngines[] = {false, true};  // the CPU's, CUDA's
std::span<const bool> engines = kEngines;
bool threaded = false;
bool tidy = false;  // whether most addresses, strides and sizes suit words and vectors, however small the items

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
  if (tidy && chance(0.7)) return std::max<int64_t>(4 / item, 1) * any(1, 40);
  if (chance(0.5)) return std::min<int64_t>(around_vectors(item), 300);
  return one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100});
}

using Numbers = std::vector<int64_t>;

Numbers any_sizes(int64_t item) {
  if (chance(0.12)) {  // more than one launch takes
    if (chance(0.7)) return Numbers(std::size_t(any(9, 11)), 2);
    Numbers sizes(9, 3);
    sizes[std::size_t(any(0, 8))] = 2;
    return sizes;
  }
  Numbers sizes(std::size_t(any(1, chance(0.1) ? 11 : 4)));
  int64_t numel = 1;
  for (int64_t& n : sizes) {
    n = any_size(item);
    while (numel * n > 6000) n = (n + 1) / 2 == n ? 1 : (n + 1) / 2;
    numel *= n;
  }
  return sizes;
}

const int64_t kPage = sysconf(_SC_PAGESIZE);

// Strides in some order of dimensions; no two indices meet. The innermost is `inner`. Now and then there are gaps,
// often such that rows of any length begin at multiples of a word or a vector, or, as often as `far` says, the
// outermost dimension has so large a stride that its offsets just fit into 31 or 32 bits, or do not, or about a page of
// gap.
Numbers any_strides(const Numbers& sizes, int64_t item, double shuffled, int64_t inner, double far = 0.1) {
  constexpr int64_t kMostFar = 64;
  const std::vector<std::size_t> order = any_order(sizes.size(), chance(shuffled));
  const double gaps = chance(0.4) ? 0 : 0.3;
  Numbers strides(sizes.size());
  int64_t stride = inner;
  for (std::size_t k = order.size(); k-- > 0;) {
    const int64_t size = sizes[order[k]];
    if (k == 0 && size > 1 && size <= kMostFar && chance(far)) {
      const int64_t page = kPage / item, least = stride;
      stride = chance(0.3) ? stride + page + any(-9, 30) : ((int64_t(any(2, 4)) << 30) - any(-100, 3000)) / (size - 1);
      if (chance(0.5)) stride -= stride % page;  // so that each may begin or end with a page
      stride = std::max(stride, least);
    }
    strides[order[k]] = stride;
    stride *= size;
    if (!tidy && !chance(gaps)) continue;
    const bool odd = chance(tidy ? 0.1 : 0.3);
    const int64_t unit = odd ? 1 : std::max<int64_t>((chance(0.7) ? 4 : 16) / item, 1);
    stride = (stride + unit - 1) / unit * unit + (odd || chance(gaps) ? unit * any(1, 9) : 0);
  }
  return strides;
}
Numbers any_strides(const Numbers& sizes, int64_t item) {
  return any_strides(sizes, item, 0.4, chance(0.2) ? any(1, 4) : 1);
}
// Strides of rows, one behind another.
Numbers any_rows(const Numbers& sizes, int64_t item, double far = 0.1) { return any_strides(sizes, item, 0, 1, far); }

// So many bytes on both sides of each item are memory: for the CUDA engine, as that of a GPU has no holes.
int64_t neighbours = 64;

// The memory of a tensor, filled with random bytes: what its strides reach, `offset` bytes past a 16-byte boundary, and
// the rest of the pages in which that lies. Of what is far apart, and now and then of what is not, only pages with
// items are there, and what `neighbours` adds to them.
class Placed {
 public:
  Placed(const Numbers& sizes, Numbers strides, int64_t item, int64_t offset)
      : strides_(std::move(strides)), item_(item) {
    int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) (strides_[d] < 0 ? low : high) += (sizes[d] - 1) * strides_[d];
    const int64_t size = (high - low + 1) * item, lead = 16 * any(0, 4) + offset, inside = pages(lead + size);
    inside_ = inside;
    reserved_ = std::bit_ceil(std::size_t(inside + 2 * kPage));
    if (std::vector<char*>& others = unused[reserved_]; !others.empty()) {
      memory_ = others.back();
      others.pop_back();
    } else {
      memory_ =
          static_cast<char*>(mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      if (memory_ == MAP_FAILED) std::abort();
    }
    char* const begin = memory_ + kPage;
    reach_ = {begin + (chance(0.5) ? lead : (inside - size - offset) / 16 * 16 + offset), std::size_t(size)};
    first_ = reach_.data() - low * item;
    if (size <= kMostNear && (size <= kPage || chance(0.7))) {
      open({begin, std::size_t(inside)});
    } else {
      std::set<int64_t> numbers;  // of pages
      for_each_index(sizes, [&](const Numbers& index) {
        const char* const from = std::max<const char*>(at(index) - neighbours, reach_.data());
        const char* const last = std::min<const char*>(at(index) + item - 1 + neighbours, &reach_.back());
        for (int64_t page = (from - begin) / kPage; page <= (last - begin) / kPage; ++page) numbers.insert(page);
      });
      for (const int64_t page : numbers) open({begin + page * kPage, std::size_t(kPage)});
    }
#ifdef __SANITIZE_ADDRESS__
    for (const std::span<char> part : around()) __asan_poison_memory_region(part.data(), part.size());
    for (std::span<char>& part : parts_)
      part = {std::max(part.data(), reach_.data()), std::min(part.data() + part.size(), reach_.data() + reach_.size())};
#endif
    for (const std::span<char> part : parts_)
      for (std::size_t k = 0; k < part.size(); k += sizeof(uint64_t)) {
        const uint64_t bits = random_bits();
        std::memcpy(&part[k], &bits, std::min(sizeof(bits), part.size() - k));
      }
  }
  ~Placed() {
#ifdef __SANITIZE_ADDRESS__
    for (const std::span<char> part : around()) __asan_unpoison_memory_region(part.data(), part.size());
#endif
    for (const std::span<char> part : parts_) {
      char* const page = part.data() - reinterpret_cast<uintptr_t>(part.data()) % kPage;
      const auto size = std::size_t(pages(part.data() + part.size() - page));
      mprotect(page, size, PROT_NONE);
      madvise(page, size, MADV_DONTNEED);
    }
    unused[reserved_].push_back(memory_);
  }
  Placed(const Placed&) = delete;

  char* first() const { return first_; }  // where index 0 of every dimension lies
  char* at(const Numbers& index) const {
    return first_ + std::inner_product(index.begin(), index.end(), strides_.begin(), int64_t(0)) * item_;
  }
  std::span<const char> reach() const { return reach_; }

  // All that is there; AddressSanitizer looks after what the strides do not reach.
  std::vector<char> bytes() const {
    std::vector<char> all;
    for (const std::span<char> part : parts_) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  void set(const std::vector<char>& bytes) const {
    const char* next = bytes.data();
    for (const std::span<char> part : parts_) {
      std::memcpy(part.data(), next, part.size());
      next += part.size();
    }
  }

 private:
  static constexpr int64_t kMostNear = 256 << 20;

  static int64_t pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  std::array<std::span<char>, 2> around() const {
    return {std::span(memory_ + kPage, reach_.data()),
            std::span(reach_.data() + reach_.size(), memory_ + kPage + inside_)};
  }
  void open(std::span<char> part) {
    mprotect(part.data(), part.size(), PROT_READ | PROT_WRITE);
    parts_.push_back(part);
  }

  // By size. An emulator keeps a table of all pages that were ever reserved.
  inline static std::map<std::size_t, std::vector<char*>> unused;

  Numbers strides_;
  int64_t item_, inside_;
  std::size_t reserved_;
  char *memory_, *first_;
  std::span<char> reach_;
  std::vector<std::span<char>> parts_;
};

// Two dimensions that together are one, where it can be taken apart.
std::vector<CopyDim> halves(const CopyDim& d) {
  if (d.step != 1 || (d.size | d.begin | d.count) % 2) return {d};
  return {{d.size / 2, 2 * d.dst_stride, 2 * d.src_stride, d.begin / 2, 1, d.count / 2},
          plain_dim(2, d.dst_stride, d.src_stride)};
}
std::vector<ReverseDim> halves(const ReverseDim& d) {
  if (d.is_axis || d.size % 2) return {d};
  return {{d.size / 2, 2 * d.dst_stride, 2 * d.src_stride, 2 * d.length_stride, false},
          {2, d.dst_stride, d.src_stride, d.length_stride, false}};
}

auto numbers(const CopyDim& d) { return std::tuple(d.size, d.dst_stride, d.src_stride, d.begin, d.step, d.count); }
auto numbers(const ReverseDim& d) { return std::tuple(d.size, d.dst_stride, d.src_stride, d.length_stride, d.is_axis); }

// Whether dimensions that were merged, and are then taken apart, are merged again, of one copy.
template <class Copy>
bool merges_again(Copy copy, void merge(Copy&)) {
  merge(copy);
  const auto merged = copy.dims;
  copy.dims = {};
  for (const auto& d : merged) {
    if (d.size == 1) return true;  // its stride may lie between those of two halves
    for (const auto& half : halves(d)) copy.dims.push_back(half);
  }
  merge(copy);
  return std::equal(merged.begin(), merged.end(), copy.dims.begin(), copy.dims.end(),
                    [](const auto& a, const auto& b) { return numbers(a) == numbers(b); });
}
bool merges_again(const AffineCopies& plan) {
  return std::all_of(plan.copies.begin(), plan.copies.end(),
                     [](const AffineCopy& copy) { return merges_again<AffineCopy>(copy, reorder_and_coalesce); });
}
bool merges_again(const ReverseCopy& plan) {
  return merges_again<ReverseCopy>(plan, [](ReverseCopy& copy) { reorder_and_coalesce(copy.dims); });
}

// Whether engines write what the plan says, and on CUDA each item once. `memory` is all that has to be as it says
// afterwards.
template <class Plan>
bool right(const char* what, const Plan& plan, const std::list<Placed>& memory) {
  const auto all_bytes = [&] {
    std::vector<std::vector<char>> bytes;
    for (const Placed& m : memory) bytes.push_back(m.bytes());
    return bytes;
  };
  if (!merges_again(plan)) {
    std::printf("dimensions of %s are not merged\n", what);
    return false;
  }
  cuda_on_host::readable.clear();
  for (const Placed& m : memory) cuda_on_host::readable.push_back(m.reach());
  const std::vector<std::vector<char>> before = all_bytes();
  int64_t items = 0;
  for_each_item(plan, [&](char* to, const char* from) {
    ++items;
    if (from)
      std::memcpy(to, from, std::size_t(plan.item_size));
    else
      std::memset(to, 0, std::size_t(plan.item_size));
  });
  const std::vector<std::vector<char>> expected = all_bytes();
  for (const bool cuda : engines) {
    auto bytes = before.begin();
    for (const Placed& m : memory) m.set(*bytes++);
    cuda_on_host::accesses = {};
    if (cuda)
      cuda::execute(plan, nullptr);
    else
      cpu::execute(plan, ragged_parallel_for);
    if (cuda && cuda_on_host::instead_of_launch) continue;  // by check_plans.cpp, which compares
    const int64_t stored = cuda ? cuda_on_host::accesses.stores.bytes : items * plan.item_size;
    if (all_bytes() == expected && stored == items * plan.item_size) continue;
    std::printf("%s is wrong on %s\n", what, cuda ? "CUDA" : "the CPU");
    return false;
  }
  return true;
}

int64_t any_offset(int64_t item) {
  return chance(tidy ? 0.8 : 0.5) ? 0 : chance(0.1) ? any(0, 15) : item * any(0, 16 / item - 1);
}

bool affine_case() {
  const int64_t item = any_item(), pieces = chance(0.8) ? 1 : any(1, chance(0.5) ? 4 : 70);
  const bool windowed = chance(0.4);
  AffineCopies plan{item, {}};
  std::list<Placed> memory;
  for (int64_t p = 0; p < pieces; ++p) {
    const Numbers sizes = pieces > 1 ? Numbers{any(1, chance(0.1) ? 40 : 5), any_size(item)} : any_sizes(item);
    const Numbers dst_strides = any_strides(sizes, item);
    std::vector<CopyDim> dims;
    Numbers counts;
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
    Numbers src_strides = chance(0.3) ? dst_strides : any_strides(counts, item);  // if equal, dimensions merge
    for (int64_t& s : src_strides) s = chance(0.2) ? -s : chance(0.1) ? any(0, 2) : chance(0.1) ? 2 * s : s;
    if (chance(0.3)) {  // every few of the source's items, often backwards
      const int64_t apart = any(1, 5);
      for (int64_t& s : src_strides) s *= apart;
      if (chance(0.5)) src_strides.back() = -src_strides.back();
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      dims[d].dst_stride = dst_strides[d];
      dims[d].src_stride = src_strides[d];
    }
    const Placed& src = memory.emplace_back(counts, src_strides, item, any_offset(item));
    const Placed& dst = memory.emplace_back(sizes, dst_strides, item, any_offset(item));
    plan.copies.push_back({dst.first(), src.first(), dims});
  }
  return right("affine_copy", plan, memory);
}

// The pieces of a split or a join: rows of one tensor, from or to pieces of it. Many are single items in turn, some are
// as narrow as a vector, which may be written past their ends. Most are neighbours but for one thing at the most: a gap
// behind each row, a piece's items apart, another order, a piece among rows of its own, one in every other row, two
// whose rows reach into each other's, gaps in the pieces too, or rows that are read again and again.
bool pieces_case(int64_t item, bool narrow = chance(0.1)) {
  const bool ones = !narrow && chance(0.5), join = chance(0.6), backwards = chance(0.2);
  const int64_t count = ones ? any(2, chance(0.05)  ? 120
                                      : chance(0.2) ? 9
                                                    : 5)
                             : any(1, chance(0.1)   ? 70
                                      : chance(0.5) ? 4
                                                    : 20);
  const int64_t rows = any(1, ones ? chance(0.1) ? 9000 : 400 : 40);
  const double same = chance(0.3) ? 1 : 0.3;  // how often a piece is as wide as the one before
  Numbers sizes;
  for (int64_t k = 0; k < count; ++k)
    sizes.push_back(ones                    ? 1
                    : narrow                ? any(1, 32 / item)
                    : k > 0 && chance(same) ? sizes.back()
                    : chance(0.4)           ? around_vectors(item)
                                            : any(1, chance(0.5) ? 4 : 200));
  const int64_t oddity = chance(0.3) ? 0 : chance(narrow ? 0.7 : 0) ? any(9, 10) : chance(0.2) ? 5 : any(0, 10);
  const auto odd = [&](int64_t number) { return oddity == number || (oddity == 8 && chance(0.5)); };
  if (oddity == 6)
    sizes = {2, 2};
  else if (!ones && !narrow && chance(oddity == 5 ? 0.9 : 0.3))  // those of a cache line or more share lines
    for (int64_t& size : sizes) size += 64 / item;
  const int64_t within = oddity == 6 ? 3 : 1;  // from an item of a row to the next one
  const int64_t gap = odd(1) ? chance(0.6) ? 1 : any(2, 9) : 0, apart = odd(2) ? any(2, 4) : 1;
  const int64_t stride = std::accumulate(sizes.begin(), sizes.end(), gap);
  const std::vector<std::size_t> order = any_order(sizes.size(), odd(3));
  const std::size_t below = odd(4) ? order[order.size() / 2] : sizes.size();  // the piece with rows of its own
  const std::size_t sparse = odd(5) ? order.back() : sizes.size();            // the one in every other row
  std::list<Placed> memory;
  const Placed& whole =
      memory.emplace_back(Numbers{(oddity < 4 ? rows : 3 * rows) * stride}, Numbers{1}, item, any_offset(item));
  std::vector<AffineCopy> copies(sizes.size());
  int64_t at = 0;
  for (const std::size_t k : order) {
    const int64_t size = sizes[k], last = backwards ? size - 1 : 0;  // which of the source's items is read first
    const int64_t sign = backwards ? -1 : 1;
    int64_t pitch = k == sparse ? 2 * stride : stride;
    const int64_t place = at + (k == below ? rows * stride : 0);
    const Numbers sizes_of_piece{rows, size}, dense{size * apart, apart};
    Numbers strides = oddity == 9 ? any_rows(sizes_of_piece, item, narrow ? 0.6 : 0.1) : dense;
    if (oddity == 10) (join ? strides[0] : pitch) = chance(0.5) ? 0 : any(0, size);
    const int64_t to_a_page_s_end = (16 - size * item % 16) % 16;
    const int64_t offset = strides[0] * item % kPage == 0 ? to_a_page_s_end : any_offset(item);  // of every row
    const Placed& piece = memory.emplace_back(sizes_of_piece, strides, item, offset);
    char* in_whole = whole.at({place + (join ? 0 : last * within)});
    if (join)
      copies[k] = {in_whole,
                   piece.at({0, last}),
                   {plain_dim(rows, pitch, strides[0]), plain_dim(size, within, sign * strides[1])}};
    else
      copies[k] = {
          piece.first(), in_whole, {plain_dim(rows, strides[0], pitch), plain_dim(size, strides[1], sign * within)}};
    at += size;
  }
  return right(join ? "join" : "split", AffineCopies{item, copies}, memory);
}

// One or a few copies of a few matrices that are transposed, their rows perhaps in descending order. Their sizes are at
// and beside those of squares and tiles.
bool transposed_case(int64_t item) {
  const auto side = [&] {
    return tidy && chance(0.6) ? 4 * any(2, 40)
           : chance(0.5)       ? std::max<int64_t>(16 / item * any(1, 5) + any(-1, 1), 1)
                               : one_of<int64_t>({32, 64, 128}) + any(-3, chance(0.5) ? 0 : 16 / item + 2);
  };
  AffineCopies plan{item, {}};
  std::list<Placed> memory;
  for (int64_t left = chance(0.8) ? 1 : any(2, 3); left > 0; --left) {
    const int64_t count = chance(0.8) ? 1 : any(2, 3), rows = side(), columns = side();
    const bool backwards = chance(0.3);
    const Numbers sizes{count, columns, rows}, dst_strides = any_rows(sizes, item);
    const Numbers src_sizes{count, rows, columns}, src_strides = any_rows(src_sizes, item);
    const int64_t offset = chance(0.5) ? any_offset(item) : item * any(0, 3);
    const Placed& src = memory.emplace_back(src_sizes, src_strides, item, offset);
    const Placed& dst = memory.emplace_back(sizes, dst_strides, item, any_offset(item));
    plan.copies.push_back(
        {dst.first(),
         src.at({0, 0, backwards ? columns - 1 : 0}),
         {plain_dim(count, dst_strides[0], src_strides[0]), plain_dim(columns, dst_strides[1], backwards ? -1 : 1),
          plain_dim(rows, 1, src_strides[1])}});
  }
  return right("a transposed copy", plan, memory);
}

// A join of two matrices that are transposed.
bool transposed_pieces_case(int64_t item, int64_t rows, const std::array<int64_t, 2>& widths) {
  std::list<Placed> memory;
  const Placed& whole = memory.emplace_back(Numbers{rows, widths[0] + widths[1]}, Numbers{widths[0] + widths[1], 1},
                                            item, any_offset(item));
  AffineCopies plan{item, {}};
  for (const int64_t k : {0, 1}) {
    const Placed& piece = memory.emplace_back(Numbers{widths[k], rows}, Numbers{rows, 1}, item, any_offset(item));
    plan.copies.push_back({whole.at({0, k * widths[0]}),
                           piece.first(),
                           {plain_dim(rows, widths[0] + widths[1], 1), plain_dim(widths[k], 1, rows)}});
  }
  return right("a join of transposed pieces", plan, memory);
}

// A reversal of tensors of these sizes along an axis, each length being length_of(). Strides of lengths count no axis.
template <class T, class LengthOf>
bool reversal(const char* what, LengthType type, int64_t item, const Numbers& sizes, std::size_t axis,
              const std::array<Numbers, 3>& strides, const std::array<int64_t, 2>& offsets, LengthOf length_of) {
  Numbers length_sizes = sizes, length_strides = strides[2];
  length_sizes[axis] = 1;
  length_strides[axis] = 0;
  std::list<Placed> memory;
  const Placed& dst = memory.emplace_back(sizes, strides[0], item, offsets[0]);
  const Placed& src = memory.emplace_back(sizes, strides[1], item, offsets[1]);
  const Placed& lengths = memory.emplace_back(length_sizes, length_strides, int64_t(sizeof(T)), sizeof(T) * any(0, 1));
  for_each_index(length_sizes, [&](const Numbers& index) {
    const T length = T(length_of());
    std::memcpy(lengths.at(index), &length, sizeof(T));
  });
  ReverseCopy plan{item, dst.first(), src.first(), lengths.first(), type, {}};
  for (std::size_t d = 0; d < sizes.size(); ++d)
    plan.dims.push_back({sizes[d], strides[0][d], strides[1][d], length_strides[d], d == axis});
  return right(what, plan, memory);
}

template <class T>
bool reverse_case(LengthType type) {
  const int64_t item = any_item();
  const Numbers sizes = any_sizes(item), dst_strides = any_strides(sizes, item);
  Numbers src_strides = chance(0.4) ? dst_strides : any_strides(sizes, item);
  Numbers length_strides = any_strides(sizes, int64_t(sizeof(T)));
  for (int64_t& s : src_strides) s = chance(0.1) ? any(0, 2) : chance(0.05) ? -s : s;
  for (int64_t& s : length_strides) s = chance(0.3) ? any(0, 1) : s;
  const auto axis = chance(0.3) ? std::size_t(std::ranges::min_element(sizes) - sizes.begin())
                                : std::size_t(any(0, int64_t(sizes.size()) - 1));
  return reversal<T>("reverse_copy", type, item, sizes, axis, {dst_strides, src_strides, length_strides},
                     {any_offset(item), any_offset(item)}, [&] {
                       return chance(0.05)  ? int64_t(random_bits())
                              : chance(0.3) ? std::min(around_vectors(item), sizes[axis])
                                            : any(-2, sizes[axis] + 2);
                     });
}

// Rows of every stride-th of the source's items, every step-th of the destination's, with zeros between, before and
// after them.
struct Rows {
  int64_t item, n, stride;
  int64_t src_offset = 0, dst_offset = 0;
  int64_t before = 0, after = 0, step = 1;
  int64_t rows = 2;
  bool backwards = false;  // the source's last row is the first
  bool dense = false;      // the destination
};

bool row_case(const Rows& c) {
  const int64_t item = c.item, size = c.before + (c.n - 1) * c.step + 1 + c.after;
  const Numbers src_sizes{c.rows, (c.n - 1) * std::abs(c.stride) + 1}, dst_sizes{c.rows, size};
  const Numbers src_strides = any_rows(src_sizes, item);
  const Numbers dst_strides = c.dense ? Numbers{size, 1} : any_rows(dst_sizes, item);
  std::list<Placed> memory;
  const Placed& src = memory.emplace_back(src_sizes, src_strides, item, c.src_offset);
  const Placed& dst = memory.emplace_back(dst_sizes, dst_strides, item, c.dst_offset);
  const char* first = src.at({c.backwards ? c.rows - 1 : 0, c.stride < 0 ? src_sizes[1] - 1 : 0});
  const CopyDim rows = plain_dim(c.rows, dst_strides[0], c.backwards ? -src_strides[0] : src_strides[0]);
  const CopyDim row{size, 1, c.stride, c.before, c.step, c.n};
  return right("a row", AffineCopies{item, {{dst.first(), first, {rows, row}}}}, memory);
}

// Three rows of n items, of which the first is reversed as far as `length`, the second whole and the third not.
bool row_reversal_case(int64_t item, int64_t src_offset, int64_t dst_offset, int64_t n, int64_t length) {
  const Numbers sizes{3, n};
  Numbers lengths{0, n + 1, length};
  const auto next = [&] {
    const int64_t last = lengths.back();
    lengths.pop_back();
    return last;
  };
  return reversal<int32_t>("a reversed row", LengthType::kInt32, item, sizes, 1,
                           {any_rows(sizes, item), any_rows(sizes, item), any_rows({3, 1}, 4)},
                           {dst_offset, src_offset}, next);
}

// Two matrices of n rows, each column of them reversed up to a length of its own; or one, whose rows may be far apart.
bool panel_case(int64_t item, int64_t n, int64_t columns, bool apart = false) {
  const bool two = !apart && chance(0.6);
  const double far = apart ? 1 : two ? 0.1 : 0.3;
  const Numbers sizes = two ? Numbers{2, n, columns} : Numbers{n, columns};
  const Numbers length_sizes = two ? Numbers{2, 1, columns} : Numbers{1, columns};
  const Numbers src_strides = any_strides(sizes, item, 0, chance(0.9) ? 1 : 2, far);
  return reversal<int64_t>("a panel", LengthType::kInt64, item, sizes, two ? 1 : 0,
                           {any_rows(sizes, item, far), src_strides, any_strides(length_sizes, 8)},
                           {any_offset(item), any_offset(item)}, [&] { return any(-1, n + 1); });
}

bool rows_case() {
  const int64_t item = any_item(), src_offset = any(0, 15), dst_offset = any(0, 15);
  const int64_t n = chance(0.7) ? around_vectors(item) : any(1, 500);
  if (chance(0.2)) return row_reversal_case(item, src_offset, dst_offset, n, any(0, n));
  if (chance(0.2)) {  // around the sizes of panels, and of what gathers take at once
    const int64_t columns = 16 * one_of<int64_t>({1, 2, 4, 8}) + any(-1, 1);
    return panel_case(item, any(1, 100), columns);
  }
  Rows c{.item = item, .n = n, .stride = any(1, chance(0.1) ? 9 : 4) * (chance(0.5) ? 1 : -1)};
  if (chance(0.5)) c.src_offset = src_offset, c.dst_offset = dst_offset;
  if (chance(0.4)) {
    c.before = chance(0.4) ? 0 : any(1, 40);
    c.after = chance(0.4) ? 0 : any(1, 40);
    c.step = chance(0.6) ? 1 : any(2, 5);
  }
  c.rows = chance(0.7) ? any(1, 4) : any(5, 40);
  c.backwards = chance(0.3);
  c.dense = chance(0.3);
  return row_case(c);
}

constexpr int kDevices = 100;

void choose_devices() {
  random_bits.seed(0);
  for (int k = 0; k < kDevices; ++k) {
    cuda_on_host::Device& device = cuda_on_host::devices[std::size_t(k)];
    device.sm_count = int(any(1, 3));
    device.max_shared_bytes_per_block = int(any(1, chance(0.3) ? 5 : 100)) << 10;  // some have no room for panels
    device.reserved_shared_bytes_per_block = chance(0.5) ? 0 : 1 << 10;
    device.shared_bytes_per_sm = device.max_shared_bytes_per_block + (int(any(1, 100)) << 10);
    device.driver_version = chance(0.5) ? 12000 : 13000;
  }
}

// The device and the engines' limits, often so low that small cases are executed as large ones are, and whether a case
// is tidy.
void choose_setting(bool non_temporal = chance(0.5), bool low = chance(0.5)) {
  cuda_on_host::max_32_bit_index = chance(0.2) ? 0 : INT32_MAX;
  cuda_on_host::reversed = chance(0.5);
  cuda_on_host::current_device = int(any(0, kDevices - 1));
  tidy = chance(0.4);
  cpu::tuning = {};
  if (non_temporal) cpu::tuning.non_temporal_bytes = 300;
  if (low)
    cpu::tuning = {.grain_bytes = 256,
                   .chunk_bytes = 1024,
                   .non_temporal_bytes = cpu::tuning.non_temporal_bytes,
                   .staging_bytes = 256,
                   .staged_row_bytes = 700,
                   .prefetch_bytes = 300,
                   .prefetch_rows_from_bytes = 300,
                   .prefetched_row_bytes = 4000,
                   .short_segment_bytes = 64,
                   .non_temporal_segment_bytes = 64,
                   .non_temporal_strided_segment_bytes = 64,
                   .panel_bytes = 4096};
}

bool run_case() {
  choose_setting();
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

int64_t cases_right = 0;
int apart = 1;  // of so many cases one is tried

// So many cases, each drawn by itself: what another one draws changes nothing of it.
template <class Case>
void every(const std::string& kind, int count, Case is_right) {
  for (int k = 0; k < count; k += apart, ++cases_right) {
    random_bits.seed(std::hash<std::string>()(kind) + std::uint64_t(k));
    if (is_right(k)) continue;
    std::printf("in case %d of %s\n", k, kind.c_str());
    std::exit(1);
  }
}

// With settings of their own.
template <class Case>
void every_set(const std::string& kind, int count, Case is_right) {
  every(kind, count, [&](int k) {
    choose_setting();
    return is_right(k);
  });
}

// With each kind of setting in turn.
template <class Case>
void each_set(const std::string& kind, int count, Case is_right) {
  every(kind, count, [&](int k) {
    choose_setting(k % 2 > 0, k / 2 % 2 > 0);
    return is_right(k);
  });
}

void alignment_cases() {
  for (int64_t item = 1; item <= 16; item *= 2) {
    const int64_t v = 16 / item;  // items of a vector
    const std::string of_items = " of " + std::to_string(item) + " bytes";
    every_set("pieces" + of_items, 200, [&](int k) { return pieces_case(item, k < 120); });
    every_set("pieces, half of them single items" + of_items, 160, [&](int) { return pieces_case(item, false); });
    every_set("transposed items" + of_items, 200, [&](int) { return transposed_case(item); });
    each_set("rows that are reversed whole, and prefetched" + of_items, 16,
             [&](int k) { return row_reversal_case(item, 0, 0, 12 * v + any(-1, 1), any(0, 12 * v)); });
    each_set("rows that are reversed, so short and many that not all of them are at once" + of_items, 8, [&](int k) {
      const Numbers sizes{any(60, 500), any(2, 3 * v)}, dense{sizes[1], 1};
      return reversal<int64_t>("a short row", LengthType::kInt64, item, sizes, 1, {dense, dense, {1, 0}}, {0, 0},
                               [&] { return any(0, sizes[1]); });
    });
    every_set("more dimensions than a launch takes, of which the axis has the least" + of_items, item == 4 ? 36 : 0,
              [&](int k) {
                Numbers sizes(9, 3);
                const auto axis = std::size_t(k % 9);
                sizes[axis] = 2;
                const Numbers strides = any_rows(sizes, item, 0);
                return reversal<int32_t>("a reversal of many dimensions", LengthType::kInt32, item, sizes, axis,
                                         {strides, strides, any_strides(sizes, 4, 1, 1, 0)}, {0, 0},
                                         [&] { return any(0, 2); });
              });
    each_set("transposed pieces of long rows" + of_items, 4, [&](int k) {
      return transposed_pieces_case(item, 64 / item * any(1, 3), {any(300, 700), any(300, 700)});
    });
    for (const int64_t stride : {-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5}) {
      const std::string strided = of_items + ", stride " + std::to_string(stride);
      each_set("rows" + strided, 48, [&](int k) {
        const int64_t n = std::array{100 * v, 24 * v, 1024 / item + any(-1, 1)}[std::size_t(k / 16)];
        return row_case({.item = item, .n = n, .stride = stride, .backwards = k / 8 % 2 > 0});
      });
      each_set("rows so short that no store is aligned" + strided, 16, [&](int k) {
        const bool backwards = k / 4 % 2 > 0;
        return row_case({.item = item, .n = any(5, 15 * v), .stride = stride, .rows = 6, .backwards = backwards});
      });
      each_set("rows so short that vectors spill into the next ones" + strided, 64, [&](int k) {
        const int64_t n = k < 48 ? any(3, 2 * v + 2) : any(v + 1, 26 * v), rows = k % 8 > 3 ? any(1, 9) : any(20, 40);
        const bool backwards = k % 3 > 1;
        return row_case({.item = item, .n = n, .stride = stride, .rows = rows, .backwards = backwards, .dense = true});
      });
      each_set("rows between zeros" + strided, 40, [&](int k) {
        Rows c{.item = item, .n = any(2, 40), .stride = stride, .step = 1 + k / 4 % 5, .rows = any(1, 6)};
        c.before = any(k < 20 ? 1 : 0, 9);
        c.after = k < 20 ? 0 : any(1, 40);
        return row_case(c);
      });
      every("rows so long that each SM gets chunks of them" + strided, 2,
            [&](int k) { return row_case({.item = item, .n = 13'000 + k, .stride = stride, .rows = 1}); });
    }
    every_set("panels of words, unless one tensor does not consist of them" + of_items, item < 4 ? 40 : 0, [&](int) {
      tidy = true;
      return panel_case(item, any(2, 9), 32 + 4 * any(0, 8));
    });
    each_set("panels whose rows are far apart" + of_items, 24,
             [&](int k) { return panel_case(item, any(2, 64), any(1, 100), true); });
    for (const int64_t columns : {int64_t(32), int64_t(45), int64_t(96), int64_t(260), 128 + 24 / item}) {
      const int64_t few = 32 / item + 1;  // rows or columns that are left where vectors end
      each_set("panels of " + std::to_string(columns) + " columns" + of_items, 12, [&](int k) {
        const int64_t n = k < 4 ? any(1, few) : any(few, 300);
        return panel_case(item, n, columns + (k < 8 ? 0 : any(1, few)));
      });
    }
    for (const int64_t n :
         std::set<int64_t>{1, v / 2 - 1, v / 2, v - 1, v, v + 1, 2 * v - 1, 2 * v, 2 * v + 1, 5 * v + 2}) {
      every_set("offsets of rows of " + std::to_string(n) + of_items, n < 1 ? 0 : 16 * 16, [&](int k) {
        const int64_t src_offset = k / 16, dst_offset = k % 16;
        const auto stride = one_of<int64_t>({1, -1, 2, -2, 3, -3, 4, -4});
        const int64_t margin = chance(0.5) ? 2 : 0;
        const Rows rows{.item = item,
                        .n = n,
                        .stride = stride,
                        .src_offset = src_offset,
                        .dst_offset = dst_offset,
                        .before = margin,
                        .after = margin};
        const int64_t length = any(std::max<int64_t>(n - v - 1, 0), n);
        return row_case(rows) && row_reversal_case(item, src_offset, dst_offset, n, length);
      });
    }
  }
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
  if (threaded || last == "cpu") {
    engines = engines.first(1);  // the other's fibers are unknown to ThreadSanitizer
    neighbours = 0;
  } else if (last == "cuda") {
    engines = engines.last(1);
  }
  choose_devices();
  const std::string what = argc > 1 ? argv[1] : "1000";
  if (what.starts_with("alignments")) {
    if (const auto slash = what.find('/'); slash != what.npos) apart = std::stoi(what.substr(slash + 1));
    alignment_cases();
  } else {
    for (const int64_t bytes : {40 << 20, (40 << 20) + 5000, 1 << 20})
      cpu::prefault_huge_pages(Placed({bytes}, {1}, 1, 0).first(), bytes, ragged_parallel_for);
    const std::string seed = argc > 2 ? argv[2] : "0";
    every("random plans of seed " + seed, std::stoi(what), [](int) { return run_case(); });
  }
  std::printf("%lld cases right\n", static_cast<long long>(cases_right));
  return 0;
}
