// Copies by non-temporal stores, which write whole cache lines to memory without reading them first or keeping them in
// the cache.

// Bytes from an address to the next cache line.
inline int64_t bytes_to_line(const void* address) {
  return int64_t(-reinterpret_cast<uintptr_t>(address) & uintptr_t(kCacheLineBytes - 1));
}

template <class V>
void store_non_temporal(V* to, V value) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  *to = value;  // the sanitizers see only ordinary stores
#else
  if constexpr (sizeof(V) == 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
  else
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
#endif
}

inline void store_line_non_temporal(char* dst, const char* src) {
  for (int64_t k = 0; k < kCacheLineBytes; k += kVectorBytes)
    store_non_temporal(reinterpret_cast<Vector*>(dst + k), reinterpret_cast<const UnalignedVector*>(src + k)->bits);
}

// One row of a segment. Non-temporal stores of partial cache lines are slow, so only whole lines get them.
// [case split middle axis in 4, 128 MB, out]
//
// `before`: the end of the source of the segment that shares the first line, or null if none does. The shared line is
// assembled from both. `continues`: whether another segment shares the last line, which is then left to that segment.
// [case join last axis of 3, 128 MB, out]
//
// `prefetch_src`: what will be read a few rows after src.
// [case window, last axis halved, 128 MB, out]
inline void copy_segment_non_temporal(char* __restrict dst, const char* src, int64_t bytes, const char* prefetch_src,
                                      const char* before, bool continues) {
  const int64_t head = std::min(bytes_to_line(dst), bytes);
  if (head && before) {
    char both[2 * kCacheLineBytes];
    std::memcpy(both, before - kCacheLineBytes, kCacheLineBytes);
    std::memcpy(both + kCacheLineBytes, src, kCacheLineBytes);
    store_line_non_temporal(dst + head - kCacheLineBytes, both + head);
  } else if (head) {
    std::memcpy(dst, src, std::size_t(head));
  }
  int64_t at = head;
  for (; at + kCacheLineBytes <= bytes; at += kCacheLineBytes) {
    prefetch(prefetch_src + at);
    store_line_non_temporal(dst + at, src + at);
  }
  if (at < bytes && !continues) std::memcpy(dst + at, src + at, std::size_t(bytes - at));
}

template <LineSharing kSharing>
void copy_segments_sharing(const SegmentBatch& batch) {
  const char* before = nullptr;
  for (int64_t row = batch.row_begin; row < batch.row_end; ++row)
    for (int64_t k = 0; k < batch.count; ++k) {
      const Segment& segment = batch.segments[k];
      const char* src = segment.src + row * segment.src_row_stride;
      const bool last = row + 1 == batch.row_end && (kSharing == LineSharing::kAcrossRows || k + 1 == batch.count);
      if (kSharing == LineSharing::kAcrossRows && row > batch.row_begin)
        before = src - segment.src_row_stride + segment.bytes;
      copy_segment_non_temporal(segment.dst + row * segment.dst_row_stride, src, segment.bytes,
                                src + batch.prefetch_rows * segment.src_row_stride, before,
                                kSharing != LineSharing::kNone && !last);
      if (kSharing == LineSharing::kAll) before = src + segment.bytes;
    }
}

void copy_segments_non_temporal(const SegmentBatch& batch) {
  switch (batch.sharing) {
    case LineSharing::kNone:
      return copy_segments_sharing<LineSharing::kNone>(batch);
    case LineSharing::kAcrossRows:
      return copy_segments_sharing<LineSharing::kAcrossRows>(batch);
    case LineSharing::kAll:
      return copy_segments_sharing<LineSharing::kAll>(batch);
  }
}

// dst[i] = src[i · kSrcStride] for i in [0, n), gathered a few lines at a time into a buffer. The source is read
// upwards (kAscending) or downwards: in the direction of the next row. [case stride 2, last axis, 128 MB, out]
template <class T, int64_t kSrcStride, bool kAscending>
void copy_strided_segment_non_temporal(T* __restrict dst, const T* __restrict src, int64_t n,
                                       int64_t prefetch_distance) {
  constexpr int64_t kLine = kCacheLineBytes / int64_t(sizeof(T)), kBuffered = 8 * kLine;
  alignas(kCacheLineBytes) T buffer[kBuffered];
  const int64_t head = std::min(bytes_to_line(dst) / int64_t(sizeof(T)), n), end = n - (n - head) % kLine;
  const auto items = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) dst[i] = src[i * kSrcStride];
  };
  const auto lines = [&](int64_t from, int64_t to) {
    const int64_t m = to - from;
    if constexpr (kSrcStride == -1) {
      const T* __restrict first = src + from * kSrcStride;
      for (int64_t i = 0; i < m; ++i) buffer[i] = first[i * kSrcStride];
    } else {
      copy_strided_row<T, kSrcStride, kAscending == (kSrcStride > 0)>(buffer, src + from * kSrcStride, m);
    }
    for (int64_t i = 0; i < m; i += kLine) {
      const char* next = reinterpret_cast<const char*>(src + (from + i) * kSrcStride) + prefetch_distance;
      for (int64_t k = 0; k != kSrcStride; k += kSrcStride > 0 ? 1 : -1) prefetch(next + k * kCacheLineBytes);
      store_line_non_temporal(reinterpret_cast<char*>(dst + from + i), reinterpret_cast<const char*>(buffer + i));
    }
  };
  if (kAscending == (kSrcStride > 0)) {
    items(0, head);
    for (int64_t i = head; i < end; i += kBuffered) lines(i, std::min(i + kBuffered, end));
    items(end, n);
  } else {
    items(end, n);
    for (int64_t i = end; i > head; i -= kBuffered) lines(std::max(i - kBuffered, head), i);
    items(0, head);
  }
}

template <class T, int64_t kSrcStride>
bool copy_strided_segments_by(const SegmentBatch& batch) {
  const Segment& segment = batch.segments[0];
  const bool ascending = (batch.row_end - batch.row_begin > 1 ? segment.src_row_stride : kSrcStride) > 0;
  const auto copy_row = ascending ? copy_strided_segment_non_temporal<T, kSrcStride, true>
                                  : copy_strided_segment_non_temporal<T, kSrcStride, false>;
  for (int64_t row = batch.row_begin; row < batch.row_end; ++row)
    copy_row(reinterpret_cast<T*>(segment.dst + row * segment.dst_row_stride),
             reinterpret_cast<const T*>(segment.src + row * segment.src_row_stride), segment.bytes / int64_t(sizeof(T)),
             batch.prefetch_rows * segment.src_row_stride);
  return true;
}

template <class T>
bool copy_strided_segments_non_temporal(const SegmentBatch& batch, int64_t src_stride) {
  switch (src_stride) {
    case -1:
      return copy_strided_segments_by<T, -1>(batch);
    case 2:
      return copy_strided_segments_by<T, 2>(batch);
    case -2:
      return copy_strided_segments_by<T, -2>(batch);
    case 3:
      return copy_strided_segments_by<T, 3>(batch);
    case -3:
      return copy_strided_segments_by<T, -3>(batch);
    case 4:
      return copy_strided_segments_by<T, 4>(batch);
    case -4:
      return copy_strided_segments_by<T, -4>(batch);
    default:
      return false;
  }
}
