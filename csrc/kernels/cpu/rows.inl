// Included by rows.cpp once for every SIMD level, inside a namespace and target options of its own. The loops are
// plain: what differs between the levels is what the compiler may make of them.

template <class T>
void copy_row(char* dst_bytes, int64_t dst_stride, const char* src_bytes, int64_t src_stride, int64_t n) {
  T* __restrict dst = reinterpret_cast<T*>(dst_bytes);
  const T* __restrict src = reinterpret_cast<const T*>(src_bytes);
  if (dst_stride != 1) {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  } else if (src_stride == 1) {
    std::memcpy(dst_bytes, src_bytes, std::size_t(n) * sizeof(T));
  } else if (src_stride == -1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
  } else if (src_stride == 0) {
    const T item = *src;
    for (int64_t i = 0; i < n; ++i) dst[i] = item;
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  }
}

template <class T>
void reverse_panel(const Panel& p) {
  for (int64_t i = p.axis_begin; i < p.axis_end; ++i) {
    T* __restrict dst = reinterpret_cast<T*>(p.dst) + i * p.dst_axis_stride;
    const T* __restrict src = reinterpret_cast<const T*>(p.src);
    for (int64_t j = 0; j < p.columns; ++j) {
      const int64_t from = i < p.lengths[j] ? p.lengths[j] - 1 - i : i;
      dst[j * p.dst_column_stride] = src[from * p.src_axis_stride + j * p.src_column_stride];
    }
  }
}

constexpr CopyRow kCopy[5] = {copy_row<Item1>, copy_row<Item2>, copy_row<Item4>, copy_row<Item8>, copy_row<Item16>};
constexpr ReversePanel kReversePanel[5] = {reverse_panel<Item1>, reverse_panel<Item2>, reverse_panel<Item4>,
                                           reverse_panel<Item8>, reverse_panel<Item16>};
