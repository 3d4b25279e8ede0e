// Items set apart by zeros: what slice_grad does along a strided axis.

template <class T, int64_t kStep>
void dilate_by(T* __restrict dst, const T* __restrict src, int64_t src_stride, int64_t n) {
  for (int64_t i = 0; i < n - 1; ++i) {
    dst[i * kStep] = src[i * src_stride];
    for (int64_t k = 1; k < kStep; ++k) dst[i * kStep + k] = T{};
  }
  dst[(n - 1) * kStep] = src[(n - 1) * src_stride];
}

// [case slice_grad, stride 2, last axis, 4 MB]
template <class T>
void dilate(char* dst_bytes, const char* src_bytes, int64_t src_stride, int64_t n, int64_t step) {
  T* dst = reinterpret_cast<T*>(dst_bytes);
  const T* src = reinterpret_cast<const T*>(src_bytes);
  if (src_stride == 1 && step == 2) return dilate_by<T, 2>(dst, src, 1, n);
  if (src_stride == -1 && step == 2) return dilate_by<T, 2>(dst, src, -1, n);
  if (src_stride == 1 && step == 3) return dilate_by<T, 3>(dst, src, 1, n);
  if (src_stride == 1 && step == 4) return dilate_by<T, 4>(dst, src, 1, n);
  std::memset(dst_bytes, 0, std::size_t((n - 1) * step + 1) * sizeof(T));
  for (int64_t i = 0; i < n; ++i) dst[i * step] = src[i * src_stride];
}

inline void zero_row(char* dst, int64_t bytes) {
  const auto by = [&]<int64_t kBytes>() {
    cover_row<uint8_t, kBytes, true>(reinterpret_cast<uint8_t*>(dst), bytes, aligns(bytes),
                                     [&](int64_t at) { std::memset(dst + at, 0, std::size_t(kBytes)); });
  };
  if (bytes >= kVectorBytes) return by.template operator()<kVectorBytes>();
  if (bytes >= 16) return by.template operator()<16>();
  if (bytes >= 8) return by.template operator()<8>();
  for (int64_t at = 0; at < bytes; ++at) dst[at] = 0;
}

// [case slice_grad, last axis halved, 4 MB]
template <class T>
void copy_windowed_rows(const WindowedRows& rows) {
  const WindowedRows t = rows;
  constexpr auto kSize = int64_t(sizeof(T));
  const int64_t end = t.begin + (t.n - 1) * t.step + 1;
  for (int64_t r = 0; r < t.rows; ++r) {
    T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    zero_row(reinterpret_cast<char*>(dst), t.begin * kSize);
    if (t.step > 1)
      dilate<T>(reinterpret_cast<char*>(dst + t.begin), reinterpret_cast<const char*>(src), t.src_stride, t.n, t.step);
    else if (t.src_stride == 1)
      copy_row(reinterpret_cast<char*>(dst + t.begin), reinterpret_cast<const char*>(src), t.n * kSize,
               aligns(t.n * kSize));
    else if (t.src_stride == -1)
      reverse_row(dst + t.begin, src, t.n, aligns(t.n * kSize));
    else
      for (int64_t i = 0; i < t.n; ++i) dst[t.begin + i] = src[i * t.src_stride];
    zero_row(reinterpret_cast<char*>(dst + end), (t.size - end) * kSize);
  }
}
