// Shows that the emulation sees what it is there for: a barrier that is missing, and the order of threads.
#include <cstdio>

#include "../../csrc/kernels/cuda/device.h"

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
  torch_dml_ops::cuda::launch("reverse_block", reverse_block, 1, kSize, nullptr, Numbers{in, out, with_barrier});
  for (int i = 0; i < kSize; ++i)
    if (out[i] != in[kSize - 1 - i]) return false;
  return true;
}

}  // namespace

int main() {
  bool ok = true;
  for (const bool reversed : {false, true}) ok = ok && right(true, reversed) && !right(false, reversed);
  const auto& a = cuda_on_host::accesses;
  ok = ok && a.loads == 4 * kSize && a.bytes_stored == 4 * kSize * int64_t(sizeof(int));
  std::puts(ok ? "the emulation sees a missing barrier" : "the emulation is blind to a missing barrier");
  return ok ? 0 : 1;
}
