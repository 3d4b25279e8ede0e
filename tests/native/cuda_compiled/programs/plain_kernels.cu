// What benchmarks/simulate.py compares the kernels with: a plain copy, and torch.flip and torch.cat, written from the
// structure that ATen's sources show (CUDALoops.cuh and OffsetCalculator.cuh; CatArrayBatchedCopy in Shape.cu).
#include <cstdint>

struct PlainCopy {
  uint4* dst;
  const uint4* src;
  unsigned count;
};

extern "C" __global__ void __launch_bounds__(256, 4) plain_copy(const __grid_constant__ PlainCopy p) {
  const unsigned k = 256 * blockIdx.x + threadIdx.x;
  if (k < p.count) p.dst[k] = p.src[k];
}

// A thread takes 4 items one after another, each with divisions, a load and a store of its own.
struct TorchFlip {
  unsigned* dst;
  const unsigned* src;
  unsigned count, dims;
  struct {
    unsigned size, multiplier, shift;
    int dst_stride, src_stride;  // in bytes
  } dim[4];
  int start;  // in bytes
};

extern "C" __global__ void __launch_bounds__(128, 4) torch_flip(const __grid_constant__ TorchFlip p) {
  unsigned index = 128 * 4 * blockIdx.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; ++i, index += 128) {
    if (index >= p.count) continue;
    unsigned rest = index;
    int dst = 0, src = p.start;
#pragma unroll
    for (unsigned d = 0; d < 4; ++d) {
      if (d == p.dims) break;
      const unsigned outer = (__umulhi(rest, p.dim[d].multiplier) + rest) >> p.dim[d].shift;
      const int j = int(rest - outer * p.dim[d].size);
      rest = outer;
      dst += j * p.dim[d].dst_stride;
      src += j * p.dim[d].src_stride;
    }
    *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(p.dst) + dst) =
        *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(p.src) + src);
  }
}

// Equal pieces, one after another in `src`, joined along the second of two dimensions. A thread takes every so many-th
// item of one piece.
struct TorchCat {
  unsigned* dst;
  const unsigned* src;
  unsigned rows, columns, pieces, blocks_per_piece;
};

extern "C" __global__ void __launch_bounds__(512, 2) torch_cat(const __grid_constant__ TorchCat p) {
  const unsigned piece = blockIdx.x / p.blocks_per_piece, block = blockIdx.x % p.blocks_per_piece;
  const unsigned count = p.rows * p.columns;
  const unsigned* from = p.src + piece * count;
  for (unsigned k = 512 * block + threadIdx.x; k < count; k += 512 * p.blocks_per_piece) {
    const unsigned row = k / p.columns, column = k - row * p.columns;
    p.dst[row * p.columns * p.pieces + piece * p.columns + column] = from[k];
  }
}
