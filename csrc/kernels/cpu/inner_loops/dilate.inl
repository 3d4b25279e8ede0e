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
