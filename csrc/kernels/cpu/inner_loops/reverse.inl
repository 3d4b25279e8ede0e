// Copies that reverse the order of the items: rows, rows at a negative stride below -1, panels of columns.

// The order of reversed lanes, and with smaller items in a lane, of its bytes.
template <class T, int64_t kBytes>
struct ReversedLanes {
  static constexpr int64_t at(int64_t lane) {
    constexpr int64_t kLanes = UnalignedLanes<T, kBytes>::kLanes;
    return sizeof(T) == 16 ? kLanes - 2 - lane + 2 * (lane % 2) : kLanes - 1 - lane;
  }
};
template <class T>
struct ReversedInLane {
  static constexpr int64_t at(int64_t byte) { return byte ^ (sizeof(T) == 1 ? 3 : 2); }
};

// kBytes bytes whose last item is src[0], reversed.
template <class T, int64_t kBytes>
__attribute__((always_inline)) inline auto load_reversed(const T* src) {
  constexpr bool kInTwoSteps = sizeof(T) < 4 && !kIsNeon;
  using Lane = std::conditional_t<kInTwoSteps, uint32_t, T>;
  using Vec = UnalignedLanes<Lane, kBytes>;
  const auto* from = reinterpret_cast<const Vec*>(src + 1 - kBytes / int64_t(sizeof(T)));
  auto lanes = shuffle<Vec::kLanes>(from->bits, from->bits, ReversedLanes<Lane, kBytes>());
  if constexpr (kInTwoSteps && kVectorBytes > 16) {
    const auto bytes = (typename UnalignedLanes<uint8_t, kBytes>::Lanes)lanes;
    lanes = (typename Vec::Lanes)shuffle<kBytes>(bytes, bytes, ReversedInLane<T>());
  } else if constexpr (kInTwoSteps) {  // SSE2 does not shuffle bytes
    lanes = lanes << 16 | lanes >> 16;
    const auto pairs = (typename UnalignedLanes<uint16_t, kBytes>::Lanes)lanes;
    if constexpr (sizeof(T) == 1) lanes = (typename Vec::Lanes)(pairs << 8 | pairs >> 8);
  }
  return (typename UnalignedLanes<T, kBytes>::Lanes)lanes;
}

template <class T, int64_t kBytes>
__attribute__((always_inline)) inline void reverse_row_by(T* dst, const T* src, int64_t n, bool align) {
  // Read upwards: the hardware prefetches better in that direction.
  cover_row<T, kBytes, false>(dst, n, align, [&](int64_t i) {
    reinterpret_cast<UnalignedLanes<T, kBytes>*>(dst + i)->bits = load_reversed<T, kBytes>(src - i);
  });
}

// dst[i] = src[-i] for i in [0, n).
template <class T>
__attribute__((always_inline)) inline void reverse_row(T* __restrict dst, const T* __restrict src, int64_t n,
                                                       bool align) {
  constexpr auto kSize = int64_t(sizeof(T));
  if (n * kSize >= kVectorBytes) return reverse_row_by<T, kVectorBytes>(dst, src, n, align);
  if constexpr (kVectorBytes > 16)
    if (n * kSize >= 16) return reverse_row_by<T, 16>(dst, src, n, align);
  if constexpr (kSize < 8)
    if (n * kSize >= 8) return reverse_row_by<T, 8>(dst, src, n, align);
  for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
}

template <class T, bool kAlign>
void copy_reversed_rows_by(const Tile t) {
  constexpr auto kSize = int64_t(sizeof(T));
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    if (t.prefetch_rows)
      prefetch_row(reinterpret_cast<const char*>(src + t.prefetch_rows * t.src_row_stride - t.n + 1), t.n * kSize);
    reverse_row(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride, src, t.n, kAlign);
  }
}

// [case stride -1, last axis, 4 MB]
template <class T>
void copy_reversed_rows(const Tile& t) {
  (aligns(t.n * int64_t(sizeof(T))) ? copy_reversed_rows_by<T, true> : copy_reversed_rows_by<T, false>)(t);
}

#ifdef __x86_64__
// From byte 16 - k · sizeof(T) on: the order of the bytes of the first k items in reverse, then negative ones.
template <class T>
struct ReversedPart {
  int8_t order[32] = {};
  constexpr ReversedPart() {
    constexpr int64_t kSize = int64_t(sizeof(T));
    for (int64_t k = 0; k < 32; ++k) order[k] = int8_t(k < 16 ? 16 - kSize - k / kSize * kSize + k % kSize : -1);
  }
};

// 16 bytes of a row, from item i on, whose first `length` items are reversed.
template <class T>
__attribute__((always_inline)) inline void reverse_part(T* dst, const T* src, int64_t length, int64_t i) {
  static constexpr ReversedPart<T> kPart;
  constexpr int64_t kItems = 16 / int64_t(sizeof(T));
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const auto or_zero = [](int64_t n) {  // of std::max compilers make a branch
    int64_t positive = ~(n >> 63);
    asm("" : "+r"(positive));
    return n & positive;
  };
  const int64_t left = or_zero(length - i), none = or_zero(kItems - left);
  const __m128i order = load(kPart.order + none * int64_t(sizeof(T)));
  const __m128i reversed = _mm_shuffle_epi8(load(src + or_zero(left - kItems)), order);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), _mm_blendv_epi8(reversed, load(src + i), order));
}

// Rows of at least 16 bytes, without branches that depend on the lengths: they would be mispredicted, and in short rows
// take longer than the work. [case reverse last axis, a length per row, 4 MB, out, rows of 31]
template <class T>
__attribute__((noinline)) void reverse_short_rows(const ReversedRows t) {
  constexpr int64_t kItems = 16 / int64_t(sizeof(T));
  for (int64_t r = 0; r < t.rows; ++r) {
    T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < t.n - kItems; i += kItems) reverse_part(dst, src, t.lengths[r], i);
    reverse_part(dst, src, t.lengths[r], t.n - kItems);
  }
}
#endif

// [case reverse last axis, a length per row]
template <class T>
void reverse_rows(const ReversedRows& rows) {
  const ReversedRows t = rows;
  const int64_t bytes = t.n * int64_t(sizeof(T));
#ifdef __x86_64__
  constexpr int64_t kShortRow = 160;  // bytes
  if constexpr (kShufflesBytes && sizeof(T) < 16)
    if (bytes >= 16 && bytes <= kShortRow) return reverse_short_rows<T>(t);
#endif
  const bool align = aligns(bytes / 4);  // parts of rows, in two directions
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t length = t.lengths[r];
    T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    if (t.prefetch_rows) prefetch_row(reinterpret_cast<const char*>(src + t.prefetch_rows * t.src_row_stride), bytes);
    reverse_row(dst, src + length - 1, length, align);
    copy_row(reinterpret_cast<char*>(dst + length), reinterpret_cast<const char*>(src + length),
             (t.n - length) * int64_t(sizeof(T)), align);
  }
}

// Writes the panel from its transpose: each column's items, of which up to axis_size that lie before them are read too.
// Squares of these are transposed back, in ascending order, and their rows written in descending order; past a column's
// length, the source's rows are chosen by item, because lengths are too irregular for branches.
template <class T, int64_t kBytes>
void write_reversed(const Panel& panel, const T* transposed, int64_t stride) {
  const Panel p = panel;  // a copy, as for a tile
  using Rows = UnalignedLanes<T, kBytes>;
  constexpr int64_t kSide = kSquareSide<T>, kColumns = kBytes / int64_t(sizeof(T)),
                    kItemLanes = Rows::kLanes / kColumns;
  using Number = std::make_signed_t<typename Rows::Lane>;
  using Numbers = UnalignedLanes<Number, kBytes>;
  const T* ends[kMaxPanelColumns];             // of what is reversed in each column, less a square
  int32_t lengths[kMaxPanelColumns];           // a panel that fits into the caches is no longer than that
  Number left[kMaxPanelColumns * kItemLanes];  // rows that are reversed from row i on, of each lane's column
  for (int64_t j = 0; j < p.columns; ++j) {
    ends[j] = transposed + j * stride + p.lengths[j] - kSide;
    lengths[j] = int32_t(p.lengths[j]);
  }
  for (int64_t k = 0; k < p.axis_size; k += kSide) {
    const int64_t i = std::min(k, p.axis_size - kSide);
    T* dst_row = reinterpret_cast<T*>(p.dst) + i * p.dst_axis_stride;
    const T* src_row = reinterpret_cast<const T*>(p.src) + i * p.src_axis_stride;
    if (p.prefetch) {
      prefetch_block(src_row + p.columns, kSide, p.src_axis_stride, p.columns);
      prefetch_block(dst_row + p.columns, kSide, p.dst_axis_stride, p.columns);
    }
    for (int64_t j = 0; j < p.columns; ++j)
      for (int64_t lane = 0; lane < kItemLanes; ++lane)
        left[j * kItemLanes + lane] = Number(std::clamp<int32_t>(lengths[j] - int32_t(i), 0, kSide));
    for (int64_t c = 0; c < p.columns; c += kColumns) {
      const int64_t j = std::min(c, p.columns - kColumns);
      const auto reversed = reinterpret_cast<const Numbers*>(left + j * kItemLanes)->bits;
      transpose_squares<T, kBytes>([&](int64_t column) { return ends[j + column] - i; },
                                   [&](int64_t row, auto items) {
                                     const int64_t r = kSide - 1 - row;
                                     const auto straight =
                                         reinterpret_cast<const Rows*>(src_row + j + r * p.src_axis_stride);
                                     reinterpret_cast<Rows*>(dst_row + j + r * p.dst_axis_stride)->bits =
                                         reversed > Number(r) ? items : straight->bits;
                                   });
    }
  }
}

// Transposes the panel, so that each column is contiguous, and transposes it back reversed. Meanwhile the next panel is
// prefetched, which lies to its right.
// [case reverse axis 1, a length per column]
template <class T>
void reverse_panel(const Panel& p) {
  constexpr int64_t kSide = kSquareSide<T>;
  const T* src = reinterpret_cast<const T*>(p.src);
  if constexpr (kSide > 1) {
    if (p.axis_size < kSide || p.columns < kSide) {
      T* dst = reinterpret_cast<T*>(p.dst);
      for (int64_t i = 0; i < p.axis_size; ++i)
        for (int64_t j = 0; j < p.columns; ++j)
          dst[i * p.dst_axis_stride + j] = src[(i < p.lengths[j] ? p.lengths[j] - 1 - i : i) * p.src_axis_stride + j];
      return;
    }
  }
  const int64_t stride = panel_stride(p.axis_size, int64_t(sizeof(T)));
  T* transposed = reinterpret_cast<T*>(p.workspace) + stride;
  transpose_matrix<T>(transposed, stride, src, p.src_axis_stride, p.columns, p.axis_size);
  const bool wide = p.columns * int64_t(sizeof(T)) >= kVectorBytes;
  (wide ? write_reversed<T, kVectorBytes> : write_reversed<T, 16>)(p, transposed, stride);
}
