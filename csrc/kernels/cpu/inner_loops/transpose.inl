// Transposition: neighbours in the source lie in different rows of the destination.

// Squares of kSquareSide<T> rows of 16 bytes are transposed in registers: interleaving the first half of the rows with
// the second, log2(side) times.
template <class T>
constexpr int64_t kSquareSide = 16 / int64_t(sizeof(T));

template <class T>
__attribute__((always_inline)) inline void transpose_square(T* dst, int64_t dst_stride, const T* src,
                                                            int64_t src_stride) {
  constexpr int64_t kSide = kSquareSide<T>;
  if constexpr (kSide == 1) {
    *dst = *src;
  } else {
    using Square = UnalignedLanes<T>;
    typename Square::Lanes low{}, high{}, rows[kSide], next[kSide];
    for (int64_t k = 0; k < kSide / 2; ++k) {
      low[2 * k] = T(k);
      low[2 * k + 1] = T(k + kSide);
      high[2 * k] = T(k + kSide / 2);
      high[2 * k + 1] = T(k + kSide / 2 + kSide);
    }
    for (int64_t k = 0; k < kSide; ++k) rows[k] = reinterpret_cast<const Square*>(src + k * src_stride)->bits;
    for (int64_t side = kSide; side > 1; side /= 2) {
      for (int64_t k = 0; k < kSide / 2; ++k) {
        next[2 * k] = __builtin_shuffle(rows[k], rows[k + kSide / 2], low);
        next[2 * k + 1] = __builtin_shuffle(rows[k], rows[k + kSide / 2], high);
      }
      for (int64_t k = 0; k < kSide; ++k) rows[k] = next[k];
    }
    for (int64_t k = 0; k < kSide; ++k) reinterpret_cast<Square*>(dst + k * dst_stride)->bits = rows[k];
  }
}

// dst[r · dst_stride + c] = src[r + c · src_stride] for r in [0, rows), c in [0, columns). Moves along the contiguous
// dimension of the source, or with kAlongDst along that of the destination. This should be the tensor's, not that of a
// buffer or workspace, whose cache lines stay in the cache in any order.
template <class T, bool kAlongDst>
void transpose_matrix(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = kSquareSide<T>;
  const int64_t whole_rows = rows - rows % kSide, whole_columns = columns - columns % kSide;
  const int64_t outer_end = kAlongDst ? whole_rows : whole_columns, inner_end = kAlongDst ? whole_columns : whole_rows;
  for (int64_t outer = 0; outer < outer_end; outer += kSide)
    for (int64_t inner = 0; inner < inner_end; inner += kSide) {
      const int64_t r = kAlongDst ? outer : inner, c = kAlongDst ? inner : outer;
      transpose_square(dst + r * dst_stride + c, dst_stride, src + r + c * src_stride, src_stride);
    }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      dst[r * dst_stride + c] = src[r + c * src_stride];
}

// A tile whose src_row_stride is 1 or -1. A cache line's width of rows goes through a buffer at a time, so that each
// cache line of the source is read once and whole: lines a power of two apart compete for the same cache sets and would
// not stay until they are read again. [case window, axis 1, to contiguous, 4 MB, out, transposed]
template <class T>
void transpose_tile(const Tile t) {
  constexpr int64_t kRows = kCacheLineBytes / int64_t(sizeof(T)), kColumns = 64;
  alignas(64) T buffer[kRows][kColumns];
  const bool backwards = t.src_row_stride < 0;
  for (int64_t i = 0; i < t.n; i += kColumns) {
    const int64_t columns = std::min(kColumns, t.n - i);
    for (int64_t r = 0; r < t.rows; r += kRows) {
      const int64_t rows = std::min(kRows, t.rows - r);
      const T* src = reinterpret_cast<const T*>(t.src) + i * t.src_stride + (backwards ? -(r + rows - 1) : r);
      T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride + i;
      transpose_matrix<T, false>(buffer[0], kColumns, src, t.src_stride, rows, columns);
      for (int64_t k = 0; k < rows; ++k)
        std::memcpy(dst + k * t.dst_row_stride, buffer[backwards ? rows - 1 - k : k], std::size_t(columns) * sizeof(T));
    }
  }
}
