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
__attribute__((always_inline)) inline void reverse_row_by(T* dst, const T* src, int64_t n) {
  // Read upwards: the hardware prefetches better in that direction.
  cover_row<T, kBytes, false>(dst, n, [&](int64_t i) {
    reinterpret_cast<UnalignedLanes<T, kBytes>*>(dst + i)->bits = load_reversed<T, kBytes>(src - i);
  });
}

// dst[i] = src[-i] for i in [0, n).
template <class T>
__attribute__((always_inline)) inline void reverse_row(T* __restrict dst, const T* __restrict src, int64_t n) {
  constexpr auto kSize = int64_t(sizeof(T));
  if (n * kSize >= kVectorBytes) return reverse_row_by<T, kVectorBytes>(dst, src, n);
  if constexpr (kVectorBytes > 16)
    if (n * kSize >= 16) return reverse_row_by<T, 16>(dst, src, n);
  if constexpr (kSize < 8)
    if (n * kSize >= 8) return reverse_row_by<T, 8>(dst, src, n);
  for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
}

// [case stride -1, last axis, 4 MB]
template <class T>
void copy_reversed_rows(const Tile t) {
  constexpr auto kSize = int64_t(sizeof(T));
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    if (t.prefetch_rows)
      prefetch_row(reinterpret_cast<const char*>(src + t.prefetch_rows * t.src_row_stride - t.n + 1), t.n * kSize);
    reverse_row(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride, src, t.n);
  }
}

// [case reverse last axis, a length per row]
template <class T>
void reverse_rows(const ReversedRows& rows) {
  const ReversedRows t = rows;
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t length = t.lengths[r];
    T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    if (t.prefetch_rows)
      prefetch_row(reinterpret_cast<const char*>(src + t.prefetch_rows * t.src_row_stride), t.n * int64_t(sizeof(T)));
    reverse_row(dst, src + length - 1, length);
    copy_row(reinterpret_cast<char*>(dst + length), reinterpret_cast<const char*>(src + length),
             (t.n - length) * int64_t(sizeof(T)));
  }
}

// Whether items at a stride are the highest parts of larger ones, which are reversed and then narrowed.
template <class T, int64_t kStep>
constexpr bool kNarrows = sizeof(T) < 4 && !kIsNeon && (kStep == 2 || (kStep == 4 && kHasNarrowing));
template <class T, int64_t kStep>
constexpr int64_t kStridedItems = kVectorBytes / int64_t(sizeof(T)) / (kNarrows<T, kStep> ? kStep : 1);

// The order of lanes that adds to a vector what it takes from the kPart-th vector, of kStep that are loaded upwards.
template <class T, int64_t kStep, int64_t kPart>
struct PartOfReversedStrided {
  static constexpr int64_t at(int64_t lane) {
    constexpr int64_t kLanes = UnalignedLanes<T>::kLanes;
    const int64_t from = kStep * kLanes - 1 - lane * kStep - kPart * kLanes;  // a lane of it, unless out of range
    return from >= 0 && from < kLanes ? kLanes + from : lane;
  }
};

// A vector of the items at a stride, of those vectors that are loaded upwards up to the kPart-th.
template <class T, int64_t kStep, int64_t kPart>
inline auto parts_of_reversed_strided(const T* src) {
  using Vec = UnalignedLanes<T>;
  typename Vec::Lanes before{};
  if constexpr (kPart > 0) before = parts_of_reversed_strided<T, kStep, kPart - 1>(src);
  const auto part = reinterpret_cast<const Vec*>(src + 1 - (kStep - kPart) * Vec::kLanes)->bits;
  return shuffle<Vec::kLanes>(before, part, PartOfReversedStrided<T, kStep, kPart>());
}

// src[0], src[-kStep], src[-2 · kStep] and so on, kStridedItems of them, from the vectors that end at src[0]. It reads
// kStep - 1 items below the last one that it returns. Compilers vectorize strided loads and reversed loads, but not
// both at once. [case stride -2, last axis, 4 MB]
template <class T, int64_t kStep>
inline auto load_reversed_strided(const T* src) {
  if constexpr (kIsNeon) {
    const auto items = load_strided<T, kStep, kStep - 1>(src + 1 - kStep * UnalignedLanes<T>::kLanes);
    return shuffle<UnalignedLanes<T>::kLanes>(items, items, ReversedLanes<T, kVectorBytes>());
  } else if constexpr (kNarrows<T, kStep>) {
    using Wide = std::conditional_t<sizeof(T) * kStep == 2, uint16_t,
                                    std::conditional_t<sizeof(T) * kStep == 4, uint32_t, uint64_t>>;
    const auto wide = load_reversed<Wide, kVectorBytes>(reinterpret_cast<const Wide*>(src - (kStep - 1)));
    using Items = typename UnalignedLanes<T, kVectorBytes / kStep>::Lanes;
    return __builtin_convertvector(wide >> 8 * int64_t(sizeof(T)) * (kStep - 1), Items);
  } else {
    return parts_of_reversed_strided<T, kStep, kStep - 1>(src);
  }
}

// dst[i] = src[-i · kStep] for i in [0, n), the source being read upwards (kAscending) or downwards.
template <class T, int64_t kStep, bool kAscending>
inline void copy_reversed_strided_row(T* dst, const T* src, int64_t n) {
  const auto items = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) dst[i] = src[-i * kStep];
  };
  if constexpr (sizeof(T) == 16) {
    if (!kAscending) return items(0, n);
    for (int64_t i = n - 1; i >= 0; --i) dst[i] = src[-i * kStep];
  } else if constexpr (sizeof(T) >= 4 || kNarrows<T, kStep> || kIsNeon) {
    constexpr int64_t kItems = kStridedItems<T, kStep>;
    // The last item is left out, as a vector reads a little below its last one.
    if (n <= kItems) return items(0, n);
    if (kAscending) items(n - 1, n);
    cover_row<T, kItems * int64_t(sizeof(T)), !kAscending>(dst, n - 1, [&](int64_t i) {
      const auto vector = load_reversed_strided<T, kStep>(src - i * kStep);
      reinterpret_cast<UnalignedLanes<T, int64_t(sizeof(vector))>*>(dst + i)->bits = vector;
    });
    if (!kAscending) items(n - 1, n);
  } else {  // no shuffles for these items: strided into a buffer, then reversed
    constexpr int64_t kBuffered = 256;
    T buffer[kBuffered];
    const auto reverse = [&](int64_t i, int64_t some) {
      const T* __restrict last = src - (i + some - 1) * kStep;
      for (int64_t k = 0; k < some; ++k) buffer[k] = last[k * kStep];
      for (int64_t k = 0; k < some; ++k) dst[i + k] = buffer[some - 1 - k];
    };
    const int64_t end = n / kBuffered * kBuffered;
    if (kAscending) {
      reverse(end, n - end);
      for (int64_t i = end; i > 0; i -= kBuffered) reverse(i - kBuffered, kBuffered);
    } else {
      for (int64_t i = 0; i < end; i += kBuffered) reverse(i, kBuffered);
      reverse(end, n - end);
    }
  }
}

template <class T, int64_t kStep>
void copy_reversed_strided_rows(const Tile t) {
  // In the direction of the next row, except by the largest shuffles. [case stride -4, last axis, 4 MB]
  constexpr bool kShuffles4 = kStep == 4 && (sizeof(T) == 4 || sizeof(T) == 8);
  const bool ascending = t.rows > 1 && t.src_row_stride > 0 && !kShuffles4;
  const auto copy_row =
      ascending ? copy_reversed_strided_row<T, kStep, true> : copy_reversed_strided_row<T, kStep, false>;
  for (int64_t r = 0; r < t.rows; ++r)
    copy_row(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride,
             reinterpret_cast<const T*>(t.src) + r * t.src_row_stride, t.n);
}

// Writes the panel from its transpose: each column's items, of which up to axis_size that lie before them are read too.
// Squares of these are transposed back, in ascending order, and their rows written in descending order; past a column's
// length, the source's rows are chosen by item, because lengths are too irregular for branches.
template <class T, int64_t kBytes>
void write_reversed(const Panel& p, const T* transposed, int64_t stride) {
  using Rows = UnalignedLanes<T, kBytes>;
  constexpr int64_t kSide = kSquareSide<T>, kColumns = kBytes / int64_t(sizeof(T)),
                    kItemLanes = Rows::kLanes / kColumns;
  using Number = std::make_signed_t<typename Rows::Lane>;
  using Numbers = UnalignedLanes<Number, kBytes>;
  const T* ends[kMaxPanelColumns];    // of what is reversed in each column, less a square
  int32_t lengths[kMaxPanelColumns];  // a panel that fits into the caches is no longer than that
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
    for (int64_t c = 0; c < p.columns; c += kColumns) {
      const int64_t j = std::min(c, p.columns - kColumns);
      Number left[Rows::kLanes];  // rows that are reversed from row i on, of each lane's column
      for (int64_t lane = 0; lane < Rows::kLanes; ++lane)
        left[lane] = Number(std::clamp<int32_t>(lengths[j + lane / kItemLanes] - int32_t(i), 0, kSide));
      const auto reversed = reinterpret_cast<const Numbers*>(left)->bits;
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
