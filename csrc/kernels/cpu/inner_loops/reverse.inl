// Copies that reverse the order of the items: rows, rows at a negative stride below -1, panels of columns.

// Reversed rows, read upwards: the hardware prefetches better in that direction. [case stride -1, last axis, 4 MB]
template <class T>
void copy_reversed_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict last = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride + t.n - 1;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride - (t.n - 1);
    for (int64_t i = 0; i < t.n; ++i) last[-i] = src[i];
  }
}

// A vector of src[0], src[-kStep], src[-2 · kStep] and so on, shuffled from the kStep vectors that end at src[0]. It
// reads kStep - 1 items below the last one that it returns. Compilers vectorize strided loads and reversed loads, but
// not both at once. [case stride -2, last axis, 4 MB]
template <class T, int64_t kStep>
inline Vector load_reversed_strided(const T* src) {
  typedef T Lanes __attribute__((vector_size(kVectorBytes)));
  constexpr auto kLanes = kVectorBytes / int64_t(sizeof(T));
  Lanes result{};
  for (int64_t part = 0; part < kStep; ++part) {  // from the lowest address up
    const T* from = src + 1 - (kStep - part) * kLanes;
    const Lanes next = (Lanes) reinterpret_cast<const UnalignedVector*>(from)->bits;
    Lanes order{};
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t at = kStep * kLanes - 1 - lane * kStep - part * kLanes;  // a lane of `next`, unless out of range
      order[lane] = T(at >= 0 && at < kLanes ? kLanes + at : lane);
    }
    result = __builtin_shuffle(result, next, order);
  }
  return (Vector)result;
}

// dst[i] = src[-i · kStep] for i in [0, n), the source being read upwards (kAscending) or downwards.
template <class T, int64_t kStep, bool kAscending>
inline void copy_reversed_strided_row(T* dst, const T* src, int64_t n) {
  const auto items = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) dst[i] = src[-i * kStep];
  };
  const auto in_order = [&](int64_t each, int64_t end, auto&& move) {
    if (kAscending)
      for (int64_t i = end - each; i >= 0; i -= each) move(i);
    else
      for (int64_t i = 0; i < end; i += each) move(i);
  };
  int64_t end = 0;
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    constexpr auto kLanes = kVectorBytes / int64_t(sizeof(T));
    end = (n - 1) / kLanes * kLanes;  // leaves at least one item, as a vector reads a little below its last item
    if (kAscending) items(end, n);
    in_order(kLanes, end, [&](int64_t i) {
      reinterpret_cast<UnalignedVector*>(dst + i)->bits = load_reversed_strided<T, kStep>(src - i * kStep);
    });
  } else {  // no shuffles for these items: strided into a buffer, then reversed
    constexpr int64_t kBuffered = 256;
    T buffer[kBuffered];
    const auto reverse = [&](int64_t i, int64_t some) {
      const T* __restrict last = src - (i + some - 1) * kStep;
      for (int64_t k = 0; k < some; ++k) buffer[k] = last[k * kStep];
      for (int64_t k = 0; k < some; ++k) dst[i + k] = buffer[some - 1 - k];
    };
    end = n / kBuffered * kBuffered;
    if (kAscending) reverse(end, n - end);
    in_order(kBuffered, end, [&](int64_t i) { reverse(i, kBuffered); });
    if (!kAscending) reverse(end, n - end);
    return;
  }
  if (!kAscending) items(end, n);
}

template <class T, int64_t kStep>
void copy_reversed_strided_rows(const Tile t) {
  const auto copy_row = t.rows > 1 && t.src_row_stride > 0 ? copy_reversed_strided_row<T, kStep, true>
                                                           : copy_reversed_strided_row<T, kStep, false>;
  for (int64_t r = 0; r < t.rows; ++r)
    copy_row(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride,
             reinterpret_cast<const T*>(t.src) + r * t.src_row_stride, t.n);
}

// Transposes the panel, so that each column is a row, reverses those rows by vectors, and transposes back.
// [case reverse axis 1, a length per column]
template <class T>
void reverse_panel(const Panel& p) {
  const int64_t n = p.axis_size, columns = p.columns;
  const int64_t stride = panel_stride(n, int64_t(sizeof(T)));
  T* __restrict transposed = reinterpret_cast<T*>(p.workspace);
  T* __restrict reversed = transposed + columns * stride;
  const T* src = reinterpret_cast<const T*>(p.src);
  T* dst = reinterpret_cast<T*>(p.dst);
  transpose_matrix<T, false>(transposed, stride, src, p.src_axis_stride, columns, n);
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t length = p.lengths[j];
    const T* __restrict from = transposed + j * stride;
    T* __restrict to = reversed + j * stride;
    for (int64_t i = 0; i < length; ++i) to[i] = from[length - 1 - i];
    std::memcpy(to + length, from + length, std::size_t(n - length) * sizeof(T));
  }
  transpose_matrix<T, true>(dst, p.dst_axis_stride, reversed, stride, n, columns);
}
