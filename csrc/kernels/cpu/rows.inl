// Included by rows.cpp once for every SIMD level, inside a namespace and target options of its own. The loops are
// plain: what differs between the levels is what the compiler may make of them, and the width of `Vector`.
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

// Rows of n items. Where kSrc is not 0 it is the source's stride, known to the compiler. [stride 2, last axis, 4 MB]
template <class T, int64_t kSrc>
void rows_of(const Tile t) {
  const int64_t src_stride = kSrc ? kSrc : t.src_stride, n = t.n;
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  }
}

// Rows of so few items that a loop over them costs more than they do. [stride -1 of a last axis of 3, 4 MB]
template <class T, int64_t kCount>
void short_rows_of(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
    for (int64_t i = 0; i < kCount; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// Rows at any stride. Unrolled, as otherwise the loop takes once or twice as long, depending on where it comes to lie.
// [split a last axis of 7 into ones, 4 MB]
template <class T>
void strided_rows_of(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T* __restrict src = reinterpret_cast<const T*>(t.src) + r * t.src_row_stride;
#pragma GCC unroll 4
    for (int64_t i = 0; i < t.n; ++i) dst[i * t.dst_stride] = src[i * t.src_stride];
  }
}

// dst[i · kCount + k] = sources[k][i] for i in [0, n), k in [0, kCount). [join ones to a last axis of 2, 4 MB]
template <class T, int64_t kCount>
void interleave_of(T* __restrict dst, const char* const* sources, int64_t n) {
  const T* __restrict src[kCount];
  for (int64_t k = 0; k < kCount; ++k) src[k] = reinterpret_cast<const T*>(sources[k]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < kCount; ++k) dst[i * kCount + k] = src[k][i];
}

template <class T>
void interleave(char* dst, const char* const* sources, int64_t count, int64_t n) {
  T* items = reinterpret_cast<T*>(dst);
  if (count == 2) return interleave_of<T, 2>(items, sources, n);
  if (count == 3) return interleave_of<T, 3>(items, sources, n);
  interleave_of<T, 4>(items, sources, n);
}

// Rows turned round, in the order of the source: processors fetch ahead better on the way up.
// [stride -1, last axis, 4 MB]
template <class T>
void reversed_rows_of(const Tile t) {
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
inline Vector backward_vector(const T* src) {
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
template <class T, int64_t kStep, bool kUpwards>
inline void backward_run(T* dst, const T* src, int64_t n) {
  const auto items = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) dst[i] = src[-i * kStep];
  };
  const auto in_order = [&](int64_t each, int64_t end, auto&& move) {
    if (kUpwards)
      for (int64_t i = end - each; i >= 0; i -= each) move(i);
    else
      for (int64_t i = 0; i < end; i += each) move(i);
  };
  int64_t end = 0;
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    constexpr auto kLanes = kVectorBytes / int64_t(sizeof(T));
    end = (n - 1) / kLanes * kLanes;  // at least one item is left: a vector reads a little more than it takes
    if (kUpwards) items(end, n);
    in_order(kLanes, end, [&](int64_t i) {
      reinterpret_cast<UnalignedVector*>(dst + i)->bits = backward_vector<T, kStep>(src - i * kStep);
    });
  } else {  // there are no such shuffles: forwards into a buffer, then turned round
    constexpr int64_t kAtOnce = 256;
    T buffer[kAtOnce];
    const auto turn = [&](int64_t i, int64_t some) {
      const T* __restrict last = src - (i + some - 1) * kStep;
      for (int64_t k = 0; k < some; ++k) buffer[k] = last[k * kStep];
      for (int64_t k = 0; k < some; ++k) dst[i + k] = buffer[some - 1 - k];
    };
    end = n / kAtOnce * kAtOnce;
    if (kUpwards) turn(end, n - end);
    in_order(kAtOnce, end, [&](int64_t i) { turn(i, kAtOnce); });
    if (!kUpwards) turn(end, n - end);
    return;
  }
  if (!kUpwards) items(end, n);
}

template <class T, int64_t kStep>
void backward_rows_of(const Tile t) {
  const auto run = t.rows > 1 && t.src_row_stride > 0 ? backward_run<T, kStep, true> : backward_run<T, kStep, false>;
  for (int64_t r = 0; r < t.rows; ++r)
    run(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride, reinterpret_cast<const T*>(t.src) + r * t.src_row_stride,
        t.n);
}

// [slice_grad, last axis halved, 4 MB: the zeros]
template <class T>
void fill_rows_of(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r) {
    T* __restrict dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride;
    const T item = reinterpret_cast<const T*>(t.src)[r * t.src_row_stride];
    for (int64_t i = 0; i < t.n; ++i) dst[i] = item;
  }
}

// Rows of bytes without gaps; strides in bytes.
struct ByteRows {
  char* dst;
  const char* src;
  int64_t rows, dst_row_stride, src_row_stride, bytes;
};

// Rows of sizeof(Part) to 2 · sizeof(Part) bytes: two parts that overlap, or one. A call of memcpy would cost more than
// they do. [split last axis in 64, 4 MB]
template <class Part>
void parts(const ByteRows t) {
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
inline void copy_run(char* __restrict dst, const char* __restrict src, int64_t bytes) {
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
inline void copy_rows(const ByteRows t) {
  switch (std::bit_width(uint64_t(t.bytes))) {
    case 2:
      return parts<Unaligned<Item2>>(t);
    case 3:
      return parts<Unaligned<Item4>>(t);
    case 4:
      return parts<Unaligned<Item8>>(t);
    case 5:
      return parts<Unaligned<Item16>>(t);
    case 6:
      return parts<Unaligned32>(t);
    default:
      break;
  }
  if (t.bytes >= kVectorBytes && t.bytes <= 2 * kVectorBytes) return parts<UnalignedVector>(t);
  for (int64_t r = 0; r < t.rows; ++r) copy_run(t.dst + r * t.dst_row_stride, t.src + r * t.src_row_stride, t.bytes);
}

// Where the runs are short, a few rows of each at a time: the other side of a split or join lies in as many places as
// there are runs, often a power of two apart, and such lines do not stay in the cache together until the next row comes
// to them. [join last axis of 16, 4 MB]
void copy_runs(const Runs& all) {
  const std::span runs(all.runs, std::size_t(all.count));
  if (std::ranges::any_of(runs, [](const Run& run) { return run.bytes < limits.short_run; })) {
    constexpr int64_t kRows = 8;
    for (int64_t row = all.begin; row < all.end; row += kRows)
      for (const Run& run : runs)
        copy_rows({run.dst + row * run.dst_row_stride, run.src + row * run.src_row_stride,
                   std::min(kRows, all.end - row), run.dst_row_stride, run.src_row_stride, run.bytes});
  } else {
    for (int64_t row = all.begin; row < all.end; ++row)
      for (const Run& run : runs)
        copy_run(run.dst + row * run.dst_row_stride, run.src + row * run.src_row_stride, run.bytes);
  }
}

// Bytes from an address to the next cache line.
inline int64_t bytes_to_line(const void* address) {
  return int64_t(-reinterpret_cast<uintptr_t>(address) & uintptr_t(kCacheLineBytes - 1));
}

inline void stream_line(char* dst, const char* src) {
  for (int64_t k = 0; k < kCacheLineBytes; k += kVectorBytes)
    store_past_cache(reinterpret_cast<Vector*>(dst + k), reinterpret_cast<const UnalignedVector*>(src + k)->bits);
}

// Into the level of the cache that is the core's own, but not the one nearest to it.
inline void ask_for(const char* address) { __builtin_prefetch(address, 0, 2); }

// [split middle axis in 4, 128 MB, out] Only whole lines go past the cache: one that is written there in part is
// written slowly. The line at the beginning is shared with the run whose source ends at `before`, if there is one, and
// is put together from both; the line at the end is left to the run that `continues` this one, if one does. `ahead` is
// what will be read instead of src a while later. [join last axis of 3, 128 MB, out, for `before`; window, last axis
// halved, 128 MB, out, for `ahead`]
inline void stream_run(char* __restrict dst, const char* src, int64_t bytes, const char* ahead, const char* before,
                       bool continues) {
  const int64_t head = std::min(bytes_to_line(dst), bytes);
  if (head && before) {
    char both[2 * kCacheLineBytes];
    std::memcpy(both, before - kCacheLineBytes, kCacheLineBytes);
    std::memcpy(both + kCacheLineBytes, src, kCacheLineBytes);
    stream_line(dst + head - kCacheLineBytes, both + head);
  } else if (head) {
    std::memcpy(dst, src, std::size_t(head));
  }
  int64_t at = head;
  for (; at + kCacheLineBytes <= bytes; at += kCacheLineBytes) {
    ask_for(ahead + at);
    stream_line(dst + at, src + at);
  }
  if (at < bytes && !continues) std::memcpy(dst + at, src + at, std::size_t(bytes - at));
}

template <Chain kChain>
void stream_chain(const Runs& r) {
  const char* before = nullptr;
  for (int64_t row = r.begin; row < r.end; ++row)
    for (int64_t k = 0; k < r.count; ++k) {
      const Run& run = r.runs[k];
      const char* src = run.src + row * run.src_row_stride;
      const bool last = row + 1 == r.end && (kChain == Chain::kRows || k + 1 == r.count);
      if (kChain == Chain::kRows && row > r.begin) before = src - run.src_row_stride + run.bytes;
      stream_run(run.dst + row * run.dst_row_stride, src, run.bytes, src + r.rows_ahead * run.src_row_stride, before,
                 kChain != Chain::kNone && !last);
      if (kChain == Chain::kAll) before = src + run.bytes;
    }
}

void stream_runs(const Runs& r) {
  switch (r.chain) {
    case Chain::kNone:
      return stream_chain<Chain::kNone>(r);
    case Chain::kRows:
      return stream_chain<Chain::kRows>(r);
    case Chain::kAll:
      return stream_chain<Chain::kAll>(r);
  }
}

// n items at a stride that the compiler knows, past the cache, a few lines at a time: in the order in which the source
// is read upwards or in the other, whichever goes on from the row before. [stride 2, last axis, 128 MB, out]
template <class T, int64_t kSrc, bool kUpwards>
void stream_strided_run(T* __restrict dst, const T* __restrict src, int64_t n, int64_t ahead) {
  constexpr int64_t kLine = kCacheLineBytes / int64_t(sizeof(T)), kAtOnce = 8 * kLine;
  alignas(kCacheLineBytes) T buffer[kAtOnce];
  const int64_t head = std::min(bytes_to_line(dst) / int64_t(sizeof(T)), n), end = n - (n - head) % kLine;
  const auto items = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) dst[i] = src[i * kSrc];
  };
  const auto lines = [&](int64_t from, int64_t to) {
    const int64_t m = to - from;
    if constexpr (kSrc >= -1) {
      const T* __restrict first = src + from * kSrc;
      for (int64_t i = 0; i < m; ++i) buffer[i] = first[i * kSrc];
    } else {
      backward_run<T, -kSrc, kUpwards>(buffer, src + from * kSrc, m);
    }
    for (int64_t i = 0; i < m; i += kLine) {
      const char* next = reinterpret_cast<const char*>(src + (from + i) * kSrc) + ahead;
      for (int64_t k = 0; k != kSrc; k += kSrc > 0 ? 1 : -1) ask_for(next + k * kCacheLineBytes);
      stream_line(reinterpret_cast<char*>(dst + from + i), reinterpret_cast<const char*>(buffer + i));
    }
  };
  if (kUpwards == (kSrc > 0)) {
    items(0, head);
    for (int64_t i = head; i < end; i += kAtOnce) lines(i, std::min(i + kAtOnce, end));
    items(end, n);
  } else {
    items(end, n);
    for (int64_t i = end; i > head; i -= kAtOnce) lines(std::max(i - kAtOnce, head), i);
    items(0, head);
  }
}

template <class T, int64_t kSrc>
bool stream_strided(const Runs& r) {
  const Run& run = r.runs[0];
  const bool upwards = (r.end - r.begin > 1 ? run.src_row_stride : kSrc) > 0;
  const auto stream = upwards ? stream_strided_run<T, kSrc, true> : stream_strided_run<T, kSrc, false>;
  for (int64_t row = r.begin; row < r.end; ++row)
    stream(reinterpret_cast<T*>(run.dst + row * run.dst_row_stride),
           reinterpret_cast<const T*>(run.src + row * run.src_row_stride), run.bytes / int64_t(sizeof(T)),
           r.rows_ahead * run.src_row_stride);
  return true;
}

template <class T>
bool stream_strided_runs(const Runs& r, int64_t src_stride) {
  switch (src_stride) {
    case -1:
      return stream_strided<T, -1>(r);
    case 2:
      return stream_strided<T, 2>(r);
    case -2:
      return stream_strided<T, -2>(r);
    case 3:
      return stream_strided<T, 3>(r);
    case -3:
      return stream_strided<T, -3>(r);
    case 4:
      return stream_strided<T, 4>(r);
    case -4:
      return stream_strided<T, -4>(r);
    default:
      return false;
  }
}

template <class T>
void runs_of(const Tile t) {
  constexpr auto kItem = int64_t(sizeof(T));
  copy_rows({t.dst, t.src, t.rows, t.dst_row_stride * kItem, t.src_row_stride * kItem, t.n * kItem});
}

// Transposes a square of kSquare<T> rows, 16 bytes each: putting the items of its first half between those of its
// second as often as the square's side can be halved.
template <class T>
constexpr int64_t kSquare = 16 / int64_t(sizeof(T));

template <class T>
__attribute__((always_inline)) inline void transpose_square(T* dst, int64_t dst_stride, const T* src,
                                                            int64_t src_stride) {
  constexpr int64_t kSide = kSquare<T>;
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
void transpose_block(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = kSquare<T>;
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
void transpose(const Tile t) {
  constexpr int64_t kRows = kCacheLineBytes / int64_t(sizeof(T)), kColumns = 64;
  alignas(64) T scratch[kRows][kColumns];
  const bool backwards = t.src_row_stride < 0;
  for (int64_t i = 0; i < t.n; i += kColumns) {
    const int64_t columns = std::min(kColumns, t.n - i);
    for (int64_t r = 0; r < t.rows; r += kRows) {
      const int64_t rows = std::min(kRows, t.rows - r);
      const T* src = reinterpret_cast<const T*>(t.src) + i * t.src_stride + (backwards ? -(r + rows - 1) : r);
      T* dst = reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride + i;
      transpose_block<T, false>(scratch[0], kColumns, src, t.src_stride, rows, columns);
      for (int64_t k = 0; k < rows; ++k)
        std::memcpy(dst + k * t.dst_row_stride, scratch[backwards ? rows - 1 - k : k],
                    std::size_t(columns) * sizeof(T));
    }
  }
}

template <class T>
void copy_tile(const Tile& tile) {
  const Tile t = tile;  // as what is stored might, for all that the compiler knows, be a part of `tile`
  if (t.n > 1 && t.dst_stride == 1 && t.src_stride == 1) return runs_of<T>(t);
  switch (t.n) {
    case 1:
      return short_rows_of<T, 1>(t);
    case 2:
      return short_rows_of<T, 2>(t);
    case 3:
      return short_rows_of<T, 3>(t);
    case 4:
      return short_rows_of<T, 4>(t);
    default:
      break;
  }
  if (t.dst_stride == 1) {
    constexpr int64_t kShortRow = 16;  // items; of shorter rows little is left for vectors
    switch (t.src_stride) {
      case -1:
        return t.n < kShortRow ? strided_rows_of<T>(t) : reversed_rows_of<T>(t);
      case 0:
        return fill_rows_of<T>(t);
      case 2:
        return rows_of<T, 2>(t);
      case -2:
        return backward_rows_of<T, 2>(t);
      case 3:
        return rows_of<T, 3>(t);
      case -3:
        return backward_rows_of<T, 3>(t);
      case 4:
        return rows_of<T, 4>(t);
      case -4:
        return backward_rows_of<T, 4>(t);
      default:
        break;
    }
    if ((t.src_row_stride == 1 || t.src_row_stride == -1) && t.rows > 1) return transpose<T>(t);
    return rows_of<T, 0>(t);
  }
  strided_rows_of<T>(t);
}

template <class T, int64_t kStep>
void expand_by(T* __restrict dst, const T* __restrict src, int64_t src_stride, int64_t n) {
  for (int64_t i = 0; i < n - 1; ++i) {
    dst[i * kStep] = src[i * src_stride];
    for (int64_t k = 1; k < kStep; ++k) dst[i * kStep + k] = T{};
  }
  dst[(n - 1) * kStep] = src[(n - 1) * src_stride];
}

// [slice_grad, stride 2, last axis, 4 MB]
template <class T>
void expand(char* dst_bytes, const char* src_bytes, int64_t src_stride, int64_t n, int64_t step) {
  T* dst = reinterpret_cast<T*>(dst_bytes);
  const T* src = reinterpret_cast<const T*>(src_bytes);
  if (src_stride == 1 && step == 2) return expand_by<T, 2>(dst, src, 1, n);
  if (src_stride == -1 && step == 2) return expand_by<T, 2>(dst, src, -1, n);
  if (src_stride == 1 && step == 3) return expand_by<T, 3>(dst, src, 1, n);
  if (src_stride == 1 && step == 4) return expand_by<T, 4>(dst, src, 1, n);
  std::memset(dst_bytes, 0, std::size_t((n - 1) * step + 1) * sizeof(T));
  for (int64_t i = 0; i < n; ++i) dst[i * step] = src[i * src_stride];
}

// Column by column with vectors: the panel transposed, so that each column is a row; those rows reversed; and back.
// [reverse axis 1, a length per column]
template <class T>
void reverse_panel(const Panel& p) {
  const int64_t n = p.axis_size, columns = p.columns;
  const int64_t stride = panel_stride(n, int64_t(sizeof(T)));
  T* __restrict turned = reinterpret_cast<T*>(p.scratch);
  T* __restrict reversed = turned + columns * stride;
  const T* src = reinterpret_cast<const T*>(p.src);
  T* dst = reinterpret_cast<T*>(p.dst);
  transpose_block<T, false>(turned, stride, src, p.src_axis_stride, columns, n);
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t length = p.lengths[j];
    const T* __restrict from = turned + j * stride;
    T* __restrict to = reversed + j * stride;
    for (int64_t i = 0; i < length; ++i) to[i] = from[length - 1 - i];
    std::memcpy(to + length, from + length, std::size_t(n - length) * sizeof(T));
  }
  transpose_block<T, true>(dst, p.dst_axis_stride, reversed, stride, n, columns);
}

#define BY_ITEM_SIZE(function) {function<Item1>, function<Item2>, function<Item4>, function<Item8>, function<Item16>}
constexpr Rows kRows = {kLevel,
                        BY_ITEM_SIZE(copy_tile),
                        BY_ITEM_SIZE(expand),
                        BY_ITEM_SIZE(interleave),
                        BY_ITEM_SIZE(reverse_panel),
                        copy_runs,
                        stream_runs,
                        BY_ITEM_SIZE(stream_strided_runs)};
#undef BY_ITEM_SIZE
