// What is checked of each plan, against the plan's own words: that the compiled kernels load only what copies reach and
// need, store each byte of the destination once and nothing else, and the right bytes, and that they make as wide
// accesses as their source does on the host. The linker puts these functions around cuda::execute (build.py).
#include <functional>
#include <numeric>
#include <random>

#include "../../plan_items.h"
#include "launches.h"

using namespace torch_dml_ops;

namespace torch_dml_ops {

void really_execute(AffineCopies, cuda::Stream) asm("__real__ZN13torch_dml_ops4cuda7executeENS_12AffineCopiesEPv");
void really_execute(ReverseCopy, cuda::Stream) asm("__real__ZN13torch_dml_ops4cuda7executeENS_11ReverseCopyEPv");
void execute_checked(AffineCopies, cuda::Stream) asm("__wrap__ZN13torch_dml_ops4cuda7executeENS_12AffineCopiesEPv");
void execute_checked(ReverseCopy, cuda::Stream) asm("__wrap__ZN13torch_dml_ops4cuda7executeENS_11ReverseCopyEPv");

}  // namespace torch_dml_ops

namespace {

using namespace cuda_compiled;

// What a plan writes to an address: the item at another one, or zeros.
struct Item {
  char* dst;
  const char* src;
};

template <class Plan>
std::vector<Item> items_of(const Plan& plan) {
  std::vector<Item> items;
  for_each_item(plan, [&](char* dst, const char* src) { items.push_back({dst, src}); });
  return items;
}

void allow_load(u64 begin, u64 end) {
  for (u64 granule = begin / kGranuleBytes; granule <= (end - 1) / kGranuleBytes; ++granule)
    allowed.granules.push_back(granule);
}

// From the lowest to the highest byte that strides reach from `first`.
template <class Dims, class Count, class Stride>
Interval reached(const void* first, const Dims& dims, Count count, Stride stride, int64_t item_size) {
  int64_t low = 0, high = 0;
  for (const auto& d : dims) (stride(d) < 0 ? low : high) += (count(d) - 1) * stride(d);
  const auto at = reinterpret_cast<u64>(first);
  return {at + u64(low * item_size), at + u64((high + 1) * item_size)};
}

void allow(const AffineCopies& plan) {
  for (const AffineCopy& copy : plan.copies)
    allowed.readable.push_back(reached(
        copy.src, copy.dims, [](const CopyDim& d) { return d.count; }, [](const CopyDim& d) { return d.src_stride; },
        plan.item_size));
}

void allow(const ReverseCopy& plan) {
  const auto size = [](const ReverseDim& d) { return d.size; };
  allowed.readable.push_back(
      reached(plan.src, plan.dims, size, [](const ReverseDim& d) { return d.src_stride; }, plan.item_size));
  const int64_t width = length_bytes(plan.length_type);
  allowed.readable.push_back(
      reached(plan.lengths, plan.dims, size, [](const ReverseDim& d) { return d.length_stride; }, width));
  std::vector<int64_t> sizes;  // of the lengths, which may be far apart
  for (const ReverseDim& d : plan.dims) sizes.push_back(d.length_stride == 0 ? 1 : d.size);
  for_each_index(sizes, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (std::size_t k = 0; k < index.size(); ++k) at += index[k] * plan.dims[k].length_stride;
    const u64 begin = reinterpret_cast<u64>(plan.lengths) + u64(at * width);
    allow_load(begin, begin + u64(width));
  });
}

// Sorts the items by destination, and allows what they need.
void allow_items(std::vector<Item>& items, int64_t item_size) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.dst < b.dst; });
  for (const Item& item : items) {
    const auto dst = reinterpret_cast<u64>(item.dst), src = reinterpret_cast<u64>(item.src);
    if (item.src) allow_load(src, src + u64(item_size));
    if (allowed.writable.empty() || allowed.writable.back().end != dst) allowed.writable.push_back({dst, dst});
    allowed.writable.back().end = dst + u64(item_size);
  }
  for (const Interval& i : allowed.writable) allowed.times_written.emplace_back(i.end - i.begin);
  std::sort(allowed.granules.begin(), allowed.granules.end());
  allowed.granules.erase(std::unique(allowed.granules.begin(), allowed.granules.end()), allowed.granules.end());
}

void require_items(const std::vector<Item>& items, int64_t item_size) {
  for (std::size_t k = 0; k < allowed.writable.size(); ++k) {
    const std::vector<u8>& times = allowed.times_written[k];
    const auto missing = std::find(times.begin(), times.end(), 0);
    if (missing != times.end())
      fail("byte %llx was not written", (unsigned long long)(allowed.writable[k].begin + u64(missing - times.begin())));
  }
  static const char zeros[16] = {};
  for (const Item& item : items)
    if (std::memcmp(item.dst, item.src ? item.src : zeros, std::size_t(item_size)) != 0)
      fail("the item at %p is not that at %p", static_cast<const void*>(item.dst), static_cast<const void*>(item.src));
}

void print_setting() {
  const cuda_on_host::Device& device = cuda_on_host::devices[std::size_t(cuda_on_host::current_device)];
  std::printf("  largest 32-bit index %lld; %d SMs, %d bytes of shared memory for a block, driver %d\n",
              (long long)cuda_on_host::max_32_bit_index, device.sm_count, device.max_shared_bytes_per_block,
              device.driver_version);
}

void print(const AffineCopies& plan) {
  print_setting();
  std::printf("  %zu copies of items of %lld bytes: {size dst_stride src_stride begin step count}\n",
              plan.copies.size(), (long long)plan.item_size);
  for (const AffineCopy& copy : plan.copies) {
    std::printf("    dst %p src %p", static_cast<const void*>(copy.dst), static_cast<const void*>(copy.src));
    for (const CopyDim& d : copy.dims)
      std::printf(" {%lld %lld %lld %lld %lld %lld}", (long long)d.size, (long long)d.dst_stride,
                  (long long)d.src_stride, (long long)d.begin, (long long)d.step, (long long)d.count);
    std::printf("\n");
  }
}

void print(const ReverseCopy& plan) {
  print_setting();
  std::printf("  a reversal of items of %lld bytes: dst %p src %p, lengths of type %d at %p\n",
              (long long)plan.item_size, static_cast<const void*>(plan.dst), static_cast<const void*>(plan.src),
              int(plan.length_type), plan.lengths);
  std::printf("    {size dst_stride src_stride length_stride is_axis}");
  for (const ReverseDim& d : plan.dims)
    std::printf(" {%lld %lld %lld %lld %d}", (long long)d.size, (long long)d.dst_stride, (long long)d.src_stride,
                (long long)d.length_stride, int(d.is_axis));
  std::printf("\n");
}

// Whether launches of kernels that the program lacks are left out, and with them the checks of their plans.
const bool is_partial = std::getenv("CUDA_COMPILED_PARTIAL") != nullptr;
bool left_out = false;
std::function<void()> prepare;  // what a plan's first launch needs; not done where that is left out

template <class Plan>
void check(Plan plan, cuda::Stream stream) {
  std::vector<Item> items;
  describe = [plan] { print(plan); };
  allowed = {};
  left_out = false;
  prepare = [&] {
    if (!allowed.everything) return;
    allowed.everything = false;
    allow(plan);
    items = items_of(plan);
    allow_items(items, plan.item_size);
  };
  really_execute(plan, stream);
  if (!left_out) require_items(items, plan.item_size);
  describe = [] {};
}

std::mt19937_64 order_bits;

// Forwards, backwards, or shuffled.
std::vector<u32> any_order(u32 n) {
  std::vector<u32> order(n);
  std::iota(order.begin(), order.end(), 0);
  switch (order_bits() % 3) {
    case 0:
      break;
    case 1:
      std::reverse(order.begin(), order.end());
      break;
    default:
      std::shuffle(order.begin(), order.end(), order_bits);
  }
  return order;
}

// The compiler may do without a load, but has no reason to make any narrower or to add one.
void require_same_accesses(const cuda_on_host::Accesses& of_source) {
  for (int k = 0; k < 5; ++k) {
    const int64_t loads = of_source.loads.by_width[k], stores = of_source.stores.by_width[k];
    if (accesses.stores[k] != stores)
      fail("%lld stores of %d bytes, and %lld in the source", (long long)accesses.stores[k], 1 << k, (long long)stores);
    if (accesses.loads[k] > loads)
      fail("%lld loads of %d bytes, and %lld in the source", (long long)accesses.loads[k], 1 << k, (long long)loads);
  }
}

void run_both(const cuda_on_host::Launch& launch) {
  left_out = left_out || (is_partial && !kernel_named(name_of(launch.kernel)));
  if (left_out) return;
  prepare();
  cuda_on_host::accesses = {};
  launch.run();
  accesses = {};
  const Launch compiled = translated(launch);
  run(compiled, any_order(compiled.blocks), any_order(compiled.kernel->threads));
  running = compiled.kernel;
  require_same_accesses(cuda_on_host::accesses);
  running = nullptr;
}

// Which basic blocks ran, for build.py: a line for each kernel, its name and how often each block did.
void write_coverage() {
  std::ofstream file(std::getenv("CUDA_COMPILED_COVERAGE"));
  for (const Kernel& k : kernels()) {
    file << k.name;
    for (std::size_t block = 0; block < k.blocks(); ++block) file << ' ' << k.visits[block];
    file << '\n';
  }
}

[[maybe_unused]] const bool installed = [] {
  cuda_on_host::instead_of_launch = run_both;
  if (std::getenv("CUDA_COMPILED_COVERAGE")) std::atexit(write_coverage);
  return true;
}();

}  // namespace

namespace torch_dml_ops {

void execute_checked(AffineCopies plan, cuda::Stream stream) { check(std::move(plan), stream); }
void execute_checked(ReverseCopy plan, cuda::Stream stream) { check(std::move(plan), stream); }

}  // namespace torch_dml_ops
