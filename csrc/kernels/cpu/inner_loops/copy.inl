// Copies that keep the order of the items: rows at any strides, contiguous rows, segments.

// Contiguous rows from a source at any stride.
template <class T>
void copy_strided_src_rows(const Tile t) {
  const int64_t src_stride = t.src_stride, n = t.n;
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  }
}

// Rows of so few items that a loop over them would cost more than the copy. [case stride -1 of a last axis of 2, 4 MB]
template <class T, int64_t kCount>
void copy_short_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < kCount; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// Rows at any strides. Not unrolled, the loop takes up to twice as long, depending on how its code is aligned.
// [case split a last axis of 7 into ones, 4 MB]
template <class T>
void copy_strided_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
#pragma GCC unroll 4
    for (int64_t i = 0; i < t.n; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// Rows of one repeated item: the zeros around a window, and broadcast sources.
// [case slice_grad, last axis halved, 4 MB]
template <class T>
void fill_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T item = reinterpret_cast<const T*>(t.src)[r * t.src_row_stride];
    for (int64_t i = 0; i < t.n; ++i) dst[i] = item;
  }
}

// Rows that are contiguous in source and destination, in bytes.
struct ContiguousRows {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride, bytes;
  int64_t prefetch_rows = 0;  // as for a Tile
};

// Rows of sizeof(Part) to 2 · sizeof(Part) bytes, as one Part or two that overlap. A call of memcpy would cost more
// than the copy. [case split last axis in 64, 4 MB]
template <class Part>
void copy_by_overlap(const ContiguousRows t) {
  constexpr auto kSize = int64_t(sizeof(Part));
  char* dst = t.dst;
  const char* src = t.src;
  const int64_t dst_row_stride = t.dst_row_stride, src_row_stride = t.src_row_stride, last = t.bytes - kSize;
  const auto move = [](char* to, const char* from) {
    *reinterpret_cast<Part*>(to) = *reinterpret_cast<const Part*>(from);
  };
  for (int64_t rows = t.rows; rows > 0; --rows) {
    move(dst, src);
    if (last) move(dst + last, src + last);
    dst += dst_row_stride;
    src += src_row_stride;
  }
}

// Rows of kHalf to 2 · kHalf vectors, as kHalf from each end, which may overlap: without a loop over the vectors.
// `ahead`: how far from src the bytes are that are prefetched meanwhile; 0: none. (Never inlined: within its callers it
// would slow their other loops. It takes numbers, as compilers write a ContiguousRows to memory by vectors and read it
// from there one by one, which waits for the writes.) [case join last axis of 16, 4 MB, out, rows of 500]
template <int64_t kHalf>
__attribute__((noinline)) void copy_by_overlapping_vectors(char* dst, const char* src, int64_t rows,
                                                           int64_t dst_row_stride, int64_t src_row_stride,
                                                           int64_t bytes, int64_t ahead) {
  const int64_t last = bytes - kHalf * kVectorBytes;
  const auto move = [](char* to, const char* from) {
    reinterpret_cast<UnalignedVector*>(to)->bits = reinterpret_cast<const UnalignedVector*>(from)->bits;
  };
  for (; rows > 0; --rows) {
    if (ahead) prefetch_row(src + ahead, bytes);
    for (int64_t at = 0; at < kHalf * kVectorBytes; at += kVectorBytes) move(dst + at, src + at);
    for (int64_t at = 0; at < kHalf * kVectorBytes; at += kVectorBytes) move(dst + last + at, src + last + at);
    dst += dst_row_stride;
    src += src_row_stride;
  }
}

// One row of a segment, at least kVectorBytes. Faster than memcpy, which chooses its method again for every row.
// [case window, last axis halved, 4 MB] `ahead`: how far from src the bytes are that are prefetched meanwhile; 0: none.
inline void copy_segment(char* __restrict dst, const char* __restrict src, int64_t bytes, bool align,
                         int64_t ahead = 0) {
  const auto move = [&](int64_t at) {
    reinterpret_cast<UnalignedVector*>(dst + at)->bits = reinterpret_cast<const UnalignedVector*>(src + at)->bits;
  };
  int64_t at = 0;
  if (align) {
    move(0);
    at = kVectorBytes - int64_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);
  }
  for (; at + 4 * kVectorBytes <= bytes; at += 4 * kVectorBytes) {
    if (ahead) prefetch_row(src + at + ahead, 4 * kVectorBytes);
    for (int64_t k = 0; k < 4; ++k) move(at + k * kVectorBytes);
  }
  if (ahead) prefetch_row(src + at + ahead, bytes - at);
  for (; at + kVectorBytes <= bytes; at += kVectorBytes) move(at);
  if (at < bytes) move(bytes - kVectorBytes);
}

// Rows of at least 2 bytes: coalesced plans have no dimensions of size 1. (Always inlined, for the
// reason that is given above.)
__attribute__((always_inline)) inline void copy_contiguous_rows(const ContiguousRows t) {
  switch (std::bit_width(uint64_t(t.bytes))) {
    case 2:
      return copy_by_overlap<Unaligned<Item2>>(t);
    case 3:
      return copy_by_overlap<Unaligned<Item4>>(t);
    case 4:
      return copy_by_overlap<Unaligned<Item8>>(t);
    case 5:
      return copy_by_overlap<Unaligned<Item16>>(t);
    case 6:
      return copy_by_overlap<Unaligned32>(t);
    default:
      break;
  }
  if (t.bytes >= kVectorBytes && t.bytes <= 2 * kVectorBytes) return copy_by_overlap<UnalignedVector>(t);
  constexpr int64_t kEnough = 5;  // for fewer rows the call takes longer than their loops
  if (t.rows >= kEnough && t.bytes <= 8 * kVectorBytes) {
    const auto copy = t.bytes <= 4 * kVectorBytes ? copy_by_overlapping_vectors<2> : copy_by_overlapping_vectors<4>;
    return copy(t.dst, t.src, t.rows, t.dst_row_stride, t.src_row_stride, t.bytes, t.prefetch_rows * t.src_row_stride);
  }
  for (int64_t r = 0; r < t.rows; ++r)
    copy_segment(t.dst + r * t.dst_row_stride, t.src + r * t.src_row_stride, t.bytes, aligns(t.bytes),
                 t.prefetch_rows * t.src_row_stride);
}

// One row of any length.
inline void copy_row(char* dst, const char* src, int64_t bytes, bool align) {
  if (bytes >= kVectorBytes) return copy_segment(dst, src, bytes, align);
  if (bytes > 1) return copy_contiguous_rows({dst, src, 1, 0, 0, bytes});
  if (bytes > 0) *dst = *src;
}

constexpr int64_t kSpillingRows = 16;  // more than of other short segments, as these are narrower

// Rows that spill (see Segment), of more than half a Part and at most one: a single store for each but the last.
template <class Part, class Half>
void copy_by_spilling(const ContiguousRows t) {
  const int64_t dst_row_stride = t.dst_row_stride, src_row_stride = t.src_row_stride;
  char* dst = t.dst;
  const char* src = t.src;
  const auto move = [&] {
    *reinterpret_cast<Part*>(dst) = *reinterpret_cast<const Part*>(src);
    dst += dst_row_stride;
    src += src_row_stride;
  };
  if (t.rows == kSpillingRows)
#pragma GCC unroll 16
    for (int64_t r = 1; r < kSpillingRows; ++r) move();
  else
    for (int64_t r = 1; r < t.rows; ++r) move();
  copy_by_overlap<Half>({dst, src, 1, 0, 0, t.bytes});
}

// [case split last axis in 64, 4 MB, out, rows of 333]
__attribute__((noinline)) void copy_spilling_segments(const SegmentBatch& batch) {
  for (int64_t row = batch.row_begin; row < batch.row_end; row += kSpillingRows)
    for (const Segment& segment : std::span(batch.segments, std::size_t(batch.count))) {
      const ContiguousRows rows{segment.dst + row * segment.dst_row_stride,
                                segment.src + row * segment.src_row_stride,
                                std::min(kSpillingRows, batch.row_end - row),
                                segment.dst_row_stride,
                                segment.src_row_stride,
                                segment.bytes};
      const bool whole = segment.spills || std::has_single_bit(uint64_t(segment.bytes));
      switch (whole ? std::bit_width(uint64_t(segment.bytes - 1)) : 0) {
        case 2:
          copy_by_spilling<Unaligned<Item4>, Unaligned<Item2>>(rows);
          break;
        case 3:
          copy_by_spilling<Unaligned<Item8>, Unaligned<Item4>>(rows);
          break;
        case 4:
          copy_by_spilling<Unaligned<Item16>, Unaligned<Item8>>(rows);
          break;
        case 5:
          copy_by_spilling<Unaligned32, Unaligned<Item16>>(rows);
          break;
        default:
          copy_contiguous_rows(rows);
      }
    }
}

// Short segments are copied a few rows at a time. Row by row, the pieces of a split or join, often a power of two
// apart, compete for the same cache sets and evict one another's lines before the next row needs them.
// [case join last axis of 16, 4 MB] More than eight rows would compete in the same way, and so do eight of the
// destination that are a page apart or nearly so. [case join last axis of 64, 4 MB, fresh, rows of 1023]
void copy_segments(const SegmentBatch& batch) {
  const std::span segments(batch.segments, std::size_t(batch.count));
  if (std::ranges::any_of(segments, &Segment::spills)) return copy_spilling_segments(batch);
  const int64_t least = std::ranges::min(segments, {}, &Segment::bytes).bytes;
  if (least < tuning.short_segment_bytes) {
    const int64_t apart = segments.front().dst_row_stride + kCacheLineBytes;
    const int64_t at_once = apart >= kPageBytes && apart % kPageBytes <= 2 * kCacheLineBytes ? 6 : 8;
    for (int64_t row = batch.row_begin; row < batch.row_end; row += at_once)
      for (const Segment& segment : segments)
        copy_contiguous_rows({segment.dst + row * segment.dst_row_stride, segment.src + row * segment.src_row_stride,
                              std::min(at_once, batch.row_end - row), segment.dst_row_stride, segment.src_row_stride,
                              segment.bytes});
  } else {
    for (int64_t row = batch.row_begin; row < batch.row_end; ++row)
      for (const Segment& segment : segments)
        copy_segment(segment.dst + row * segment.dst_row_stride, segment.src + row * segment.src_row_stride,
                     segment.bytes, aligns(segment.bytes), batch.prefetch_rows * segment.src_row_stride);
  }
}

template <class T>
void copy_contiguous_tile(const Tile t) {
  constexpr auto kItem = int64_t(sizeof(T));
  copy_contiguous_rows(
      {t.dst, t.src, t.rows, t.dst_row_stride * kItem, t.src_row_stride * kItem, t.n * kItem, t.prefetch_rows});
}
