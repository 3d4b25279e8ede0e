// Included by inner_loops.cpp once for every SIMD level, inside a namespace and target options of its own. The loops
// are plain: what differs between the levels is what the compiler may make of them, and the width of `Vector`.
//
// Each way of doing things names the benchmark's case that pays for it, [in brackets].

typedef uint64_t Vector __attribute__((vector_size(kVectorBytes), may_alias));

// A T at any address. (A struct: an attribute of a plain type would be lost where that is a template's argument.)
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T bits;
};
struct __attribute__((packed, may_alias)) UnalignedVector {
  Vector bits;
};
struct __attribute__((packed, may_alias)) Unaligned32 {
  uint64_t bits __attribute__((vector_size(32)));
};

// 16 bytes of items, at any address.
template <class T>
struct __attribute__((packed, may_alias)) UnalignedLanes {
  typedef T Lanes __attribute__((vector_size(16)));
  Lanes bits;
};

// Rows of n items. Where kSrcStride is not 0 it is the source's stride, known to the compiler. [stride 2, last axis, 4
// MB]
template <class T, int64_t kSrcStride>
void copy_strided_src_rows(const Tile t) {
  const int64_t src_stride = kSrcStride ? kSrcStride : t.src_stride, n = t.n;
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  }
}

// Rows of so few items that a loop over them costs more than they do. [stride -1 of a last axis of 3, 4 MB]
template <class T, int64_t kCount>
void copy_short_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < kCount; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// Rows at any stride. Unrolled, as otherwise the loop takes once or twice as long, depending on where it comes to lie.
// [split a last axis of 7 into ones, 4 MB]
template <class T>
void copy_strided_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
#pragma GCC unroll 4
    for (int64_t i = 0; i < t.n; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// dst[i · kCount + k] = sources[k][i] for i in [0, n), k in [0, kCount). [join ones to a last axis of 2, 4 MB]
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

// Rows turned round, in the order of the source: processors fetch ahead better on the way up.
// [stride -1, last axis, 4 MB]
template <class T>
void copy_reversed_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict last = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride + t.n - 1;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride - (t.n - 1);
    for (int64_t i = 0; i < t.n; ++i) last[-i] = src[i];
  }
}

// A vector of src[0], src[-kStep], src[-2 · kStep] and so on, made from kStep vectors that end at src[0]. It reads
// kStep - 1 items below the last that it takes. Compilers know vector instructions for items at a stride and for items
// turned round, but not for the two in one. [stride -2, last axis, 4 MB]
template <class T, int64_t kStep>
inline Vector load_reversed_strided(const T* src) {
  typedef T Lanes __attribute__((vector_size(kVectorBytes)));
  constexpr auto kLanes = kVectorBytes / int64_t(sizeof(T));
  Lanes result{};
  for (int64_t part = 0; part < kStep; ++part) {  // upwards through what is read
    const T* from = src + 1 - (kStep - part) * kLanes;
    const Lanes next = (Lanes) reinterpret_cast<const UnalignedVector*>(from)->bits;
    Lanes order{};
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t at = kStep * kLanes - 1 - lane * kStep - part * kLanes;  // where in `next`, if there
      order[lane] = T(at >= 0 && at < kLanes ? kLanes + at : lane);
    }
    result = __builtin_shuffle(result, next, order);
  }
  return (Vector)result;
}

// n items that go backwards from src by a stride that the compiler knows, in the order in which the source is read
// upwards or in the other.
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
    end = (n - 1) / kLanes * kLanes;  // at least one item is left: a vector reads a little more than it takes
    if (kAscending) items(end, n);
    in_order(kLanes, end, [&](int64_t i) {
      reinterpret_cast<UnalignedVector*>(dst + i)->bits = load_reversed_strided<T, kStep>(src - i * kStep);
    });
  } else {  // there are no such shuffles: forwards into a buffer, then turned round
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

// [slice_grad, last axis halved, 4 MB: the zeros]
template <class T>
void fill_rows(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T item = reinterpret_cast<const T*>(t.src)[r * t.src_row_stride];
    for (int64_t i = 0; i < t.n; ++i) dst[i] = item;
  }
}

// Rows of bytes without gaps; strides in bytes.
struct ContiguousRows {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride, bytes;
};

// Rows of sizeof(Part) to 2 · sizeof(Part) bytes: two parts that overlap, or one. A call of memcpy would cost more than
// they do. [split last axis in 64, 4 MB]
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

// At least a vector's bytes. Faster than memcpy, which decides anew for every row how to go about it.
// [window, last axis halved, 4 MB]
inline void copy_segment(char* __restrict dst, const char* __restrict src, int64_t bytes) {
  constexpr int64_t kAlignFrom = 512;  // bytes; from here on a store that spans two cache lines costs more
  const auto move = [&](int64_t at) {
    reinterpret_cast<UnalignedVector*>(dst + at)->bits = reinterpret_cast<const UnalignedVector*>(src + at)->bits;
  };
  int64_t at = 0;
  if (bytes >= kAlignFrom) {
    move(0);
    at = kVectorBytes - int64_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);
  }
  for (; at + 4 * kVectorBytes <= bytes; at += 4 * kVectorBytes)
    for (int64_t k = 0; k < 4; ++k) move(at + k * kVectorBytes);
  for (; at + kVectorBytes <= bytes; at += kVectorBytes) move(at);
  if (at < bytes) move(bytes - kVectorBytes);
}

// Of at least 2 bytes: a plan has no dimensions of size 1.
inline void copy_contiguous_rows(const ContiguousRows t) {
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
  for (int64_t r = 0; r < t.rows; ++r)
    copy_segment(t.dst + r * t.dst_row_stride, t.src + r * t.src_row_stride, t.bytes);
}

// Where the segments are short, a few rows of each at a time: the other side of a split or join lies in as many places
// as there are segments, often a power of two apart, and such lines do not stay in the cache together until the next
// row comes to them. [join last axis of 16, 4 MB]
void copy_segments(const SegmentBatch& batch) {
  const std::span segments(batch.segments, std::size_t(batch.count));
  if (std::ranges::any_of(segments,
                          [](const Segment& segment) { return segment.bytes < tuning.short_segment_bytes; })) {
    constexpr int64_t kRows = 8;
    for (int64_t row = batch.row_begin; row < batch.row_end; row += kRows)
      for (const Segment& segment : segments)
        copy_contiguous_rows({segment.dst + row * segment.dst_row_stride, segment.src + row * segment.src_row_stride,
                              std::min(kRows, batch.row_end - row), segment.dst_row_stride, segment.src_row_stride,
                              segment.bytes});
  } else {
    for (int64_t row = batch.row_begin; row < batch.row_end; ++row)
      for (const Segment& segment : segments)
        copy_segment(segment.dst + row * segment.dst_row_stride, segment.src + row * segment.src_row_stride,
                     segment.bytes);
  }
}

// Bytes from an address to the next cache line.
inline int64_t bytes_to_line(const void* address) {
  return int64_t(-reinterpret_cast<uintptr_t>(address) & uintptr_t(kCacheLineBytes - 1));
}

inline void store_line_non_temporal(char* dst, const char* src) {
  for (int64_t k = 0; k < kCacheLineBytes; k += kVectorBytes)
    store_non_temporal(reinterpret_cast<Vector*>(dst + k), reinterpret_cast<const UnalignedVector*>(src + k)->bits);
}

// Into the level of the cache that is the core's own, but not the one nearest to it.
inline void prefetch(const char* address) { __builtin_prefetch(address, 0, 2); }

// [split middle axis in 4, 128 MB, out] Only whole lines go past the cache: one that is written there in part is
// written slowly. The line at the beginning is shared with the segment whose source ends at `before`, if there is one,
// and is put together from both; the line at the end is left to the segment that `continues` this one, if one does.
// `prefetch_src` is what will be read instead of src a while later. [join last axis of 3, 128 MB, out, for `before`;
// window, last axis halved, 128 MB, out, for `prefetch_src`]
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

// n items at a stride that the compiler knows, past the cache, a few lines at a time: in the order in which the source
// is read upwards or in the other, whichever goes on from the row before. [stride 2, last axis, 128 MB, out]
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
    if constexpr (kSrcStride >= -1) {
      const T* __restrict first = src + from * kSrcStride;
      for (int64_t i = 0; i < m; ++i) buffer[i] = first[i * kSrcStride];
    } else {
      copy_reversed_strided_row<T, -kSrcStride, kAscending>(buffer, src + from * kSrcStride, m);
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

template <class T>
void copy_contiguous_tile(const Tile t) {
  constexpr auto kItem = int64_t(sizeof(T));
  copy_contiguous_rows({t.dst, t.src, t.rows, t.dst_row_stride * kItem, t.src_row_stride * kItem, t.n * kItem});
}

// Transposes a square of kSquareSide<T> rows, 16 bytes each: putting the items of its first half between those of its
// second as often as the square's side can be halved.
template <class T>
constexpr int64_t kSquareSide = 16 / int64_t(sizeof(T));

template <class T>
__attribute__((always_inline)) inline void transpose_square(T* dst, int64_t dst_stride, const T* src,
                                                            int64_t src_stride) {
  constexpr int64_t kSide = kSquareSide<T>;
  if constexpr (kSide == 1) {
    *dst = *src;
  } else {
    using Square = UnalignedLanes<T>;
    typename Square::Lanes low{}, high{}, rows[kSide], next[kSide];
    for (int64_t k = 0; k < kSide / 2; ++k) {
      low[2 * k] = T(k);
      low[2 * k + 1] = T(k + kSide);
      high[2 * k] = T(k + kSide / 2);
      high[2 * k + 1] = T(k + kSide / 2 + kSide);
    }
    for (int64_t k = 0; k < kSide; ++k) rows[k] = reinterpret_cast<const Square*>(src + k * src_stride)->bits;
    for (int64_t side = kSide; side > 1; side /= 2) {
      for (int64_t k = 0; k < kSide / 2; ++k) {
        next[2 * k] = __builtin_shuffle(rows[k], rows[k + kSide / 2], low);
        next[2 * k + 1] = __builtin_shuffle(rows[k], rows[k + kSide / 2], high);
      }
      for (int64_t k = 0; k < kSide; ++k) rows[k] = next[k];
    }
    for (int64_t k = 0; k < kSide; ++k) reinterpret_cast<Square*>(dst + k * dst_stride)->bits = rows[k];
  }
}

// dst[r · dst_stride + c] = src[r + c · src_stride] for r in [0, rows), c in [0, columns). It goes along the lines of
// the source, or with kAlongDst of the destination: of whichever does not lie in a scratch, whose lines stay in the
// cache.
template <class T, bool kAlongDst>
void transpose_matrix(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = kSquareSide<T>;
  const int64_t whole_rows = rows - rows % kSide, whole_columns = columns - columns % kSide;
  const int64_t outer_end = kAlongDst ? whole_rows : whole_columns, inner_end = kAlongDst ? whole_columns : whole_rows;
  for (int64_t outer = 0; outer < outer_end; outer += kSide)
    for (int64_t inner = 0; inner < inner_end; inner += kSide) {
      const int64_t r = kAlongDst ? outer : inner, c = kAlongDst ? inner : outer;
      transpose_square(dst + r * dst_stride + c, dst_stride, src + r + c * src_stride, src_stride);
    }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      dst[r * dst_stride + c] = src[r + c * src_stride];
}

// The source's neighbours are the destination's rows. Blocks go through a scratch, so that each cache line of the
// source is read whole and once: lines that lie a power of two apart do not stay in the cache together.
// [window, axis 1, to contiguous, 4 MB, out, transposed]
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
      transpose_matrix<T, false>(buffer[0], kColumns, src, t.src_stride, rows, columns);
      for (int64_t k = 0; k < rows; ++k)
        std::memcpy(dst + k * t.dst_row_stride, buffer[backwards ? rows - 1 - k : k], std::size_t(columns) * sizeof(T));
    }
  }
}

template <class T>
void copy_tile(const Tile& tile) {
  const Tile t = tile;  // as what is stored might, for all that the compiler knows, be a part of `tile`
  if (t.n > 1 && t.dst_stride == 1 && t.src_stride == 1) return copy_contiguous_tile<T>(t);
  switch (t.n) {
    case 1:
      return copy_short_rows<T, 1>(t);
    case 2:
      return copy_short_rows<T, 2>(t);
    case 3:
      return copy_short_rows<T, 3>(t);
    case 4:
      return copy_short_rows<T, 4>(t);
    default:
      break;
  }
  if (t.dst_stride == 1) {
    constexpr int64_t kShortRow = 16;  // items; of shorter rows little is left for vectors
    switch (t.src_stride) {
      case -1:
        return t.n < kShortRow ? copy_strided_rows<T>(t) : copy_reversed_rows<T>(t);
      case 0:
        return fill_rows<T>(t);
      case 2:
        return copy_strided_src_rows<T, 2>(t);
      case -2:
        return copy_reversed_strided_rows<T, 2>(t);
      case 3:
        return copy_strided_src_rows<T, 3>(t);
      case -3:
        return copy_reversed_strided_rows<T, 3>(t);
      case 4:
        return copy_strided_src_rows<T, 4>(t);
      case -4:
        return copy_reversed_strided_rows<T, 4>(t);
      default:
        break;
    }
    if ((t.src_row_stride == 1 || t.src_row_stride == -1) && t.rows > 1) return transpose_tile<T>(t);
    return copy_strided_src_rows<T, 0>(t);
  }
  copy_strided_rows<T>(t);
}

template <class T, int64_t kStep>
void dilate_by(T* __restrict dst, const T* __restrict src, int64_t src_stride, int64_t n) {
  for (int64_t i = 0; i < n - 1; ++i) {
    dst[i * kStep] = src[i * src_stride];
    for (int64_t k = 1; k < kStep; ++k) dst[i * kStep + k] = T{};
  }
  dst[(n - 1) * kStep] = src[(n - 1) * src_stride];
}

// [slice_grad, stride 2, last axis, 4 MB]
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

// Column by column with vectors: the panel transposed, so that each column is a row; those rows reversed; and back.
// [reverse axis 1, a length per column]
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

#define BY_ITEM_SIZE(function) {function<Item1>, function<Item2>, function<Item4>, function<Item8>, function<Item16>}
constexpr InnerLoops kInnerLoops = {kLevel,
                                    BY_ITEM_SIZE(copy_tile),
                                    BY_ITEM_SIZE(dilate),
                                    BY_ITEM_SIZE(interleave),
                                    BY_ITEM_SIZE(reverse_panel),
                                    copy_segments,
                                    copy_segments_non_temporal,
                                    BY_ITEM_SIZE(copy_strided_segments_non_temporal)};
#undef BY_ITEM_SIZE
