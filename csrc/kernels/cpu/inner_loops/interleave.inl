// Single items of several sources in turn: what a join of ones along the last axis does.

// dst[i · kCount + k] = sources[k][i] for i in [0, n), k in [0, kCount). [case join ones to a last axis of 2, 4 MB]
template <class T, int64_t kCount>
void interleave_sources(T* __restrict dst, const char* const* sources, int64_t n) {
  const T* __restrict src[kCount];
  for (int64_t k = 0; k < kCount; ++k) src[k] = reinterpret_cast<const T*>(sources[k]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < kCount; ++k) dst[i * kCount + k] = src[k][i];
}

template <class T>
void interleave(char* dst, const char* const* sources, int64_t count, int64_t n) {
  T* items = reinterpret_cast<T*>(dst);
  if (count == 2) return interleave_sources<T, 2>(items, sources, n);
  if (count == 3) return interleave_sources<T, 3>(items, sources, n);
  interleave_sources<T, 4>(items, sources, n);
}
