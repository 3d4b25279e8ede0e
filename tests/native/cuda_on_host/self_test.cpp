// Shows that the emulation sees what it is there for: a barrier that is missing, the order of threads, and accesses
// that are repeated or lie apart; that the kernels' divisions are right for every dividend and divisor; and that the
// number of vectors stays within what decides between 32 and 64 bits.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <random>

#include "../../../csrc/kernels/affine_copy.h"
#include "../../../csrc/kernels/cuda/dims.h"
#include "../../../csrc/kernels/cuda/launch.h"
#include "../../../csrc/kernels/cuda/vec_partition.h"

namespace {

constexpr int kSize = 64;

struct Numbers {
  const int* in;
  int* out;
  bool with_barrier;
};

// Every thread writes one number to shared memory and reads another thread's.
__global__ void reverse_block(Numbers p) {
  __shared__ int tile[kSize];
  tile[threadIdx.x] = torch_dml_ops::cuda::load(p.in + threadIdx.x);
  if (p.with_barrier) __syncthreads();
  torch_dml_ops::cuda::store(p.out + threadIdx.x, tile[kSize - 1 - threadIdx.x]);
}

bool right(bool with_barrier, bool reversed) {
  int in[kSize], out[kSize];
  static int round = 0;  // numbers of its own each time, so that what an earlier run left in the tile is wrong
  ++round;
  for (int i = 0; i < kSize; ++i) in[i] = round * kSize + i;
  cuda_on_host::reversed = reversed;
  torch_dml_ops::cuda::launch<reverse_block>("reverse_block", 1, kSize, nullptr, Numbers{in, out, with_barrier});
  for (int i = 0; i < kSize; ++i)
    if (out[i] != in[kSize - 1 - i]) return false;
  return true;
}

// Loads and stores of one warp: every `apart`-th number, each `times` times.
struct Apart {
  const int* in;
  int* out;
  int apart, times;
};

__global__ void move_apart(Apart p) {
  for (int i = 0; i < p.times; ++i) {
    const int at = int(threadIdx.x) * p.apart;
    torch_dml_ops::cuda::store(p.out + at, torch_dml_ops::cuda::load(p.in + at));
  }
}

bool counts(int apart, int times, int64_t sectors) {
  alignas(32) static int in[32 * 8], out[32 * 8];
  cuda_on_host::accesses = {};
  cuda_on_host::recording = true;
  torch_dml_ops::cuda::launch<move_apart>("move_apart", 1, 32, nullptr, Apart{in, out, apart, times});
  const auto right = [&](const cuda_on_host::Traffic& t) {
    return t.count == 32 * times && t.bytes == 4 * t.count && t.by_width[2] == t.count && t.distinct_bytes == 4 * 32 &&
           t.sectors == sectors * times && t.distinct_sectors == sectors;
  };
  return right(cuda_on_host::accesses.loads) && right(cuda_on_host::accesses.stores);
}

template <class Offset>
bool divides() {
  using torch_dml_ops::cuda::FastDivmod;
  constexpr Offset kMost = std::numeric_limits<Offset>::max();
  std::mt19937_64 random;
  for (int k = 0; k < 200'000; ++k) {
    // Of every length in bits, and those beside them.
    const auto any = [&] { return Offset(uint64_t(kMost) >> random() % (8 * sizeof(Offset))) - Offset(random() % 3); };
    const Offset d = std::max<Offset>(any(), 1), q = std::max<Offset>(any(), 0) % (kMost / d + 1);
    for (const Offset n : {std::max<Offset>(any(), 0), Offset(q * d), Offset(std::max<Offset>(q * d, 1) - 1), kMost})
      if (d <= kMost / 2 + 1 && FastDivmod<Offset>(d).div(n) != n / d) return false;
  }
  return true;
}

// A copy has at most as many vectors as items: of ranges of every length, beginning at every address.
template <class Item, int kVecSize>
bool vectors_are_bounded() {
  using namespace torch_dml_ops;
  alignas(16) static const Item items[16 / sizeof(Item)] = {};
  for (const Item& first : items)
    for (int64_t ranges = 1; ranges <= 3; ++ranges)
      for (int64_t size = 1; size <= 3 * kVecSize; ++size)
        for (int64_t gap = 0; gap <= kVecSize; ++gap)
          for (const bool may_span_rows : {false, true}) {
            const std::vector<CopyDim> dims = {plain_dim(ranges, size + gap, size), plain_dim(size, 1, 1)};
            const auto* dst = reinterpret_cast<const char*>(&first);
            const auto vecs = cuda::VecPartition<int32_t>::of<Item, kVecSize>(dst, dims, may_span_rows);
            const bool bounded = vecs.count + cuda::kThreadsPerBlock <= cuda::index_bound(dims);
            if (vecs.count > ranges * size || !bounded) return false;
          }
  return true;
}

}  // namespace

int main() {
  bool barrier = true;
  for (const bool reversed : {false, true}) barrier = barrier && right(true, reversed) && !right(false, reversed);
  std::puts(barrier ? "the emulation sees a missing barrier" : "the emulation is blind to a missing barrier");
  const bool counted = counts(1, 1, 4) && counts(1, 3, 4) && counts(2, 1, 8) && counts(8, 2, 32);
  std::puts(counted ? "and counts what is loaded and stored" : "and counts wrongly");
  const bool divided = divides<int32_t>() && divides<int64_t>();
  std::puts(divided ? "and multipliers divide" : "and multipliers divide wrongly");
  const bool bounded = vectors_are_bounded<uint8_t, 16>() && vectors_are_bounded<uint8_t, 4>() &&
                       vectors_are_bounded<uint8_t, 1>() && vectors_are_bounded<uint32_t, 4>() &&
                       vectors_are_bounded<uint64_t, 2>();
  std::puts(bounded ? "and vectors are at most as many as items" : "and vectors may be more than items");
  return barrier && counted && divided && bounded ? 0 : 1;
}
