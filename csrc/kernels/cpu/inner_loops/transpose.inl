// Transposition: neighbours in the source lie in different rows of the destination.

// Squares of kSquareSide<T> rows of 16 bytes are transposed in registers: interleaving the first half of the rows with
// the second, log2(side) times. Each 16 bytes of a vector do this for a square of their own.
template <class T>
constexpr int64_t kSquareSide = 16 / int64_t(sizeof(T));

template <class T, int64_t kBytes, bool kHigh>
struct Interleaved {
  static constexpr int64_t at(int64_t lane) {
    constexpr int64_t kSide = kSquareSide<T>;
    const int64_t of_square = lane % kSide, half = (kHigh ? kSide / 2 : 0) + of_square / 2;
    return lane - of_square + half + of_square % 2 * (kBytes / int64_t(sizeof(T)));
  }
};

// Squares of kBytes of columns, beside one another: move(r, vector) is called for row r of each, column(c) is where the
// items of column c are, one after another.
template <class T, int64_t kBytes, class Column, class Move>
__attribute__((always_inline)) inline void transpose_squares(Column column, Move move) {
  constexpr int64_t kSide = kSquareSide<T>;
  using Rows = UnalignedLanes<T, kBytes>;
  typename Rows::Lanes rows[kSide], next[kSide];
  for (int64_t k = 0; k < kSide; ++k)
    rows[k] = (typename Rows::Lanes)load_16_byte_rows<kBytes>(column(k), column(kBytes == 16 ? k : kSide + k));
  for (int64_t side = kSide; side > 1; side /= 2) {
    for (int64_t k = 0; k < kSide / 2; ++k) {
      next[2 * k] = shuffle<Rows::kLanes>(rows[k], rows[k + kSide / 2], Interleaved<T, kBytes, false>());
      next[2 * k + 1] = shuffle<Rows::kLanes>(rows[k], rows[k + kSide / 2], Interleaved<T, kBytes, true>());
    }
    for (int64_t k = 0; k < kSide; ++k) rows[k] = next[k];
  }
  for (int64_t k = 0; k < kSide; ++k) move(k, rows[k]);
}

template <class T, int64_t kBytes>
void transpose_by(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = kSquareSide<T>, kColumns = kBytes / int64_t(sizeof(T));
  for (int64_t i = 0; i < columns; i += kColumns)
    for (int64_t j = 0; j < rows; j += kSide) {
      const int64_t r = std::min(j, rows - kSide), c = std::min(i, columns - kColumns);
      T* to = dst + r * dst_stride + c;
      const T* from = src + r + c * src_stride;
      transpose_squares<T, kBytes>([&](int64_t k) { return from + k * src_stride; },
                                   [&](int64_t k, auto items) {
                                     reinterpret_cast<UnalignedLanes<T, kBytes>*>(to + k * dst_stride)->bits = items;
                                   });
    }
}

// dst[r · dst_stride + c] = src[r + c · src_stride] for r in [0, rows), c in [0, columns). Moves along the contiguous
// dimension of the source, which should be the tensor's: the cache lines of a buffer stay in the cache in any order.
template <class T>
void transpose_matrix(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = kSquareSide<T>;
  if (rows >= kSide && columns * int64_t(sizeof(T)) >= kVectorBytes)
    return transpose_by<T, kVectorBytes>(dst, dst_stride, src, src_stride, rows, columns);
  if (rows >= kSide && columns >= kSide) return transpose_by<T, 16>(dst, dst_stride, src, src_stride, rows, columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) dst[r * dst_stride + c] = src[r + c * src_stride];
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
      if (t.prefetch) {
        prefetch_block(src + (backwards ? -kRows : kRows), columns, t.src_stride, 1);
        prefetch_block(dst + kRows * t.dst_row_stride, kRows, t.dst_row_stride, columns);
      }
      transpose_matrix<T>(buffer[0], kColumns, src, t.src_stride, rows, columns);
      for (int64_t k = 0; k < rows; ++k)
        std::memcpy(dst + k * t.dst_row_stride, buffer[backwards ? rows - 1 - k : k], std::size_t(columns) * sizeof(T));
    }
  }
}
