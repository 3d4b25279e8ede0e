// Executes copies with nearly 2^31 items of each size, of which only the last thread blocks are run and the last items
// are checked: indices as large as 32 bits allow, without the time and the memory for the rest.
#include <sys/mman.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <random>

#include "addresses.h"
#include "launches.h"

using namespace torch_dml_ops;
using cuda_compiled::u32;

namespace {

constexpr int64_t kItems = (int64_t(1) << 31) - 8192;  // index_bound is a little larger
constexpr int64_t kMargin = 1 << 16;                   // so that an index that is off by a little hits nothing
constexpr int64_t kMemoryBytes = kItems * kMaxItemBytes + 2 * kMargin;
constexpr int64_t kChecked = 200;
constexpr u32 kBlocks = 2;  // with at least 256 items

// Rows of `size` items, with `gap` items between them in the destination, where the source has every step-th item of
// each row but the first. Without a step, the source has all items, those of a row in reverse order.
AffineCopy rows(int64_t size, int64_t gap, int64_t step) {
  const int64_t count = kItems / (size + gap);
  if (step == 0) return {nullptr, nullptr, {plain_dim(count, size + gap, size), plain_dim(size, 1, -1)}};
  const int64_t read = (size - 2) / step + 1;
  return {nullptr, nullptr, {plain_dim(count, size + gap, read), {size, 1, 1, 1, step, read}}};
}

void check(AffineCopy copy, int64_t item_size, char* dst, char* src) {
  const CopyDim outer = copy.dims[0], row = copy.dims[1];
  copy.dst = dst;
  copy.src = src + (row.src_stride < 0 ? row.size - 1 : 0) * item_size;
  struct Item {
    char* dst;
    const char* src;
  };
  std::vector<Item> items;
  std::mt19937_64 bits;
  for (int64_t n = outer.size * row.size - kChecked; n < outer.size * row.size; ++n) {
    const int64_t i = n / row.size, q = row.source_index(n % row.size);
    char* to = dst + (i * outer.dst_stride + n % row.size) * item_size;
    char* from = const_cast<char*>(copy.src) + (i * outer.src_stride + q * row.src_stride) * item_size;
    for (int64_t k = 0; k < item_size; ++k) {
      to[k] = 101;
      if (q >= 0) from[k] = char(bits());
    }
    items.push_back({to, q >= 0 ? from : nullptr});
  }
  bool ran = false;
  cuda_compiled::describe = [&] {
    std::printf("  %lld rows of %lld items of %lld bytes, %lld apart, every %lld-th in the source\n",
                (long long)outer.size, (long long)row.size, (long long)item_size, (long long)outer.dst_stride,
                (long long)row.step);
  };
  const cuda_compiled::Kernel* kernel = nullptr;
  cuda_on_host::instead_of_launch = [&](const cuda_on_host::Launch& launch) {
    if (std::getenv("CUDA_COMPILED_PARTIAL") && !cuda_compiled::kernel_named(cuda_compiled::name_of(launch.kernel)))
      return;
    const cuda_compiled::Launch compiled = cuda_compiled::translated(launch);
    std::vector<u32> threads(compiled.kernel->threads), blocks(std::min(compiled.blocks, kBlocks));
    std::iota(threads.begin(), threads.end(), 0);
    std::iota(blocks.begin(), blocks.end(), compiled.blocks - u32(blocks.size()));
    cuda_compiled::run(compiled, blocks, threads);
    kernel = compiled.kernel;
    ran = true;
  };
  cuda::execute({item_size, {copy}}, nullptr);
  cuda_compiled::running = kernel;
  static const char zeros[kMaxItemBytes] = {};
  for (const Item& item : items)
    if (ran && std::memcmp(item.dst, item.src ? item.src : zeros, std::size_t(item_size)) != 0)
      cuda_compiled::fail("the item at %p is not that at %p", static_cast<const void*>(item.dst),
                          static_cast<const void*>(item.src));
  cuda_compiled::running = nullptr;
  for (char* at : {dst, src}) madvise(at - kMargin, std::size_t(kMemoryBytes), MADV_DONTNEED);
}

}  // namespace

int main() {
  // So many SMs that each thread block has one chunk.
  cuda_on_host::devices[0] = cuda_compiled::h200(1 << 20);
  char *dst = cuda_compiled::reserve(kMemoryBytes) + kMargin, *src = cuda_compiled::reserve(kMemoryBytes) + kMargin;
  int64_t done = 0;
  for (int64_t item_size = 1; item_size <= kMaxItemBytes; item_size *= 2)
    for (const int64_t size : {int64_t(2), int64_t(3), int64_t(7), int64_t(33), kItems})
      for (const int64_t gap : {0, 1})
        for (const int64_t step : {0, 1, 2, 3, 7}) {
          if (size + gap > kItems) continue;
          check(rows(size, gap, step), item_size, dst, src);
          ++done;
        }
  std::printf("%lld copies right\n", (long long)done);
  return 0;
}
