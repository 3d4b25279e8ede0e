// Copies of every second, third or fourth item, in either direction.

// Whether there are vectors of such items that are faster than what compilers make of a loop: they vectorize strided
// loads and reversed loads, but not both at once, and strided bytes in many instructions. [case stride -2, last axis,
// 4 MB] [case stride 3, last axis, 4 MB, out, rows of 1001]
template <class T, int64_t kStep>
constexpr bool kLoadsStrided =
    sizeof(T) < 16 && (kStep < 0 ? sizeof(T) >= 4 || kShufflesBytes || kIsNeon
                                 : (sizeof(T) == 1 && kShufflesBytes) || (sizeof(T) == 8 && kStep > 2 && kIsNeon));

// load_strided<T, kStep, kBytes>(from): from[0], from[kStep], from[2 · kStep] and so on, kBytes of them. It reads up to
// |kStep| - 1 items past the last one.
#ifdef __aarch64__
template <class T, int64_t kStep, int64_t kBytes>
__attribute__((always_inline)) inline auto load_strided(const T* from) {
  using Lanes = UnalignedLanes<T, kBytes>;
  constexpr int64_t kApart = kStep < 0 ? -kStep : kStep, kPart = kStep < 0 ? kApart - 1 : 0;
  if (kStep < 0) from += 1 - kApart * Lanes::kLanes;
  typename Lanes::Lanes items{};
#define LOAD_STRIDED(bits)                                               \
  if constexpr (sizeof(T) == bits / 8) {                                 \
    if constexpr (kApart == 2) items = vld2q_u##bits((from)).val[kPart]; \
    if constexpr (kApart == 3) items = vld3q_u##bits((from)).val[kPart]; \
    if constexpr (kApart == 4) items = vld4q_u##bits((from)).val[kPart]; \
  }
  LOAD_STRIDED(8)
  LOAD_STRIDED(16)
  LOAD_STRIDED(32)
  LOAD_STRIDED(64)
#undef LOAD_STRIDED
  if constexpr (kStep > 0)
    return items;
  else
    return shuffle<Lanes::kLanes>(items, items, ReversedLanes<T, kBytes>());
}
#else
// The order of lanes that adds to a vector what it takes from the kPart-th vector, of |kStep| that are loaded upwards.
template <class T, int64_t kStep, int64_t kBytes, int64_t kPart>
struct LanesOfPart {
  static constexpr int64_t at(int64_t lane) {
    constexpr int64_t kLanes = UnalignedLanes<T, kBytes>::kLanes;
    const int64_t from = lane * kStep + (kStep < 0 ? -kStep * kLanes - 1 : 0) - kPart * kLanes;
    return from >= 0 && from < kLanes ? kLanes + from : lane;
  }
};

#ifdef __x86_64__
// Which bytes of the kChunk-th 16 bytes of a source go where in the 16 bytes that are taken from it; negative: from
// another 16 bytes.
template <class T, int64_t kStep, int64_t kChunk, int64_t kBytes>
struct BytesOfChunk {
  alignas(kBytes) int8_t order[kBytes] = {};
  constexpr BytesOfChunk() {
    constexpr int64_t kSize = int64_t(sizeof(T)), kFirst = kStep < 0 ? -kStep * (16 / kSize) - 1 : 0;
    for (int64_t k = 0; k < kBytes; ++k) {
      const int64_t from = (kFirst + k % 16 / kSize * kStep) * kSize + k % kSize;
      order[k] = int8_t(from / 16 == kChunk ? from % 16 : -1);
    }
  }
};

// For each 16 bytes of a vector, what it has of the kChunk-th 16 bytes from `first` on, or from `second` on.
template <class T, int64_t kStep, int64_t kBytes, int64_t kChunk>
__attribute__((always_inline)) inline auto bytes_of_chunk(const char* first, const char* second) {
  static constexpr BytesOfChunk<T, kStep, kChunk, kBytes> kFrom;
  const auto* low = reinterpret_cast<const __m128i*>(first) + kChunk;
  const auto* high = reinterpret_cast<const __m128i*>(second) + kChunk;
  if constexpr (kBytes == 32)
    return _mm256_shuffle_epi8(_mm256_loadu2_m128i(high, low), *reinterpret_cast<const __m256i*>(kFrom.order));
  else
    return _mm_shuffle_epi8(_mm_loadu_si128(low), *reinterpret_cast<const __m128i*>(kFrom.order));
}
#endif

template <class T, int64_t kStep, int64_t kBytes>
__attribute__((always_inline)) inline auto load_strided(const T* from) {
  using Lanes = UnalignedLanes<T, kBytes>;
  constexpr int64_t kApart = kStep < 0 ? -kStep : kStep;
  const T* first = kStep < 0 ? from + 1 - kApart * Lanes::kLanes : from;
  constexpr auto kParts = std::make_index_sequence<std::size_t(kApart)>();
#ifdef __x86_64__
  if constexpr (kShufflesBytes && sizeof(T) < 4) {
    const char* low = reinterpret_cast<const char*>(first);
    const char* high = low + 16 * kApart;
    if constexpr (kStep < 0 && kBytes == 32) std::swap(low, high);
    return [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
      return (bytes_of_chunk<T, kStep, kBytes, int64_t(k)>(low, high) | ...);
    }(kParts);
  } else
#endif
    return [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
      typename Lanes::Lanes result{};
      ((result =
            shuffle<Lanes::kLanes>(result, reinterpret_cast<const Lanes*>(first + int64_t(k) * Lanes::kLanes)->bits,
                                   LanesOfPart<T, kStep, kBytes, int64_t(k)>())),
       ...);
      return result;
    }(kParts);
}
#endif

// dst[i] = src[i · kStep] for i in [0, n), dst being written upwards (kUpwards) or downwards.
template <class T, int64_t kStep, bool kUpwards>
__attribute__((always_inline)) inline void copy_strided_row(T* __restrict dst, const T* __restrict src, int64_t n) {
  const auto items = [&](int64_t from, int64_t to) {
    if constexpr (kUpwards)
      for (int64_t i = from; i < to; ++i) dst[i] = src[i * kStep];
    else
      for (int64_t i = to - 1; i >= from; --i) dst[i] = src[i * kStep];
  };
  if constexpr (kLoadsStrided<T, kStep>) {
    const auto vectors = [&]<int64_t kBytes>() __attribute__((always_inline)) {
      // The last item is left out, as a vector reads a little past its last one.
      if (!kUpwards) items(n - 1, n);
      cover_row<T, kBytes, kUpwards>(dst, n - 1, true, [&](int64_t i) __attribute__((always_inline)) {
        const auto vector = load_strided<T, kStep, kBytes>(src + i * kStep);
        std::memcpy(dst + i, &vector, sizeof(vector));
      });
      if (kUpwards) items(n - 1, n);
    };
    const int64_t bytes = (n - 1) * int64_t(sizeof(T));
    if (bytes >= kVectorBytes) return vectors.template operator()<kVectorBytes>();
    if constexpr (kVectorBytes > 16)
      if (bytes >= 16) return vectors.template operator()<16>();
  }
  items(0, n);
}

// (Never inlined: in one function, the loops would want for registers.)
template <class T, int64_t kStep, bool kUpwards>
__attribute__((noinline)) void copy_strided_rows_towards(const Tile t) {
  for (int64_t r = 0; r < t.rows; ++r)
    copy_strided_row<T, kStep, kUpwards>(reinterpret_cast<T*>(t.dst) + r * t.dst_row_stride,
                                         reinterpret_cast<const T*>(t.src) + r * t.src_row_stride, t.n);
}

template <class T, int64_t kStep, int64_t kBytes>
__attribute__((always_inline)) inline auto load_in_steps(const T* from) {
  if constexpr (kStep == -1)
    return load_reversed<T, kBytes>(from);
  else
    return load_strided<T, kStep, kBytes>(from);
}

// Dense rows by whole vectors, whose last spills into the rows after it, as those are written later. It reads past its
// row too: what other rows read, and what lies between them.
template <class T, int64_t kStep, int64_t kBytes>
void copy_spilling_rows(const Tile t) {
  constexpr int64_t kItems = kBytes / int64_t(sizeof(T)), kApart = kStep < 0 ? -kStep : kStep;
  const auto units = [](int64_t items, int64_t of) { return (items + of - 1) / of; };
  const bool towards_next = (kStep > 0) == (t.src_row_stride > 0);
  const int64_t items = units(t.n, kItems) * kItems;  // of a row's vectors
  const int64_t read_past = units(kApart * (items - t.n + 1) - 1, std::abs(t.src_row_stride));
  const int64_t begin = towards_next ? 0 : std::min(read_past, t.rows);
  const int64_t end = t.rows - std::max(units(items, t.n) - 1, towards_next ? read_past : 0);
  T* dst = reinterpret_cast<T*>(t.dst);
  const T* src = reinterpret_cast<const T*>(t.src);
  int64_t row = 0;
  const auto next = [&](int64_t rows) { row += rows, dst += rows * t.n, src += rows * t.src_row_stride; };
  const auto move_items = [&](int64_t to) {
    while (row < to) {
      for (int64_t i = 0; i < t.n; ++i) dst[i] = src[i * kStep];
      next(1);
    }
  };
  move_items(begin);
  // Vectors are loaded before the first of them is stored: it spills to where the next row is loaded from, but for what
  // is often a multiple of 4 KB, for which processors let the load wait. [case stride -1 of a last axis of 3, 4 MB]
  constexpr int64_t kTogether = 4;
  if constexpr (kItems > 2)  // rows have at least 3
    while (items == kItems && row + kTogether <= end) {
      decltype(load_in_steps<T, kStep, kBytes>(src)) vectors[kTogether];
      for (int64_t k = 0; k < kTogether; ++k) vectors[k] = load_in_steps<T, kStep, kBytes>(src + k * t.src_row_stride);
      for (int64_t k = 0; k < kTogether; ++k) std::memcpy(dst + k * t.n, &vectors[k], kBytes);
      next(kTogether);
    }
  // Always read upwards. [case stride -2, last axis, 4 MB, out, rows of 333, float16]
  while (row < end) {
    for (int64_t i = 0; i < items; i += kItems) {
      const int64_t at = kStep < 0 ? items - kItems - i : i;
      const auto vector = load_in_steps<T, kStep, kBytes>(src + at * kStep);
      std::memcpy(dst + at, &vector, kBytes);
    }
    next(1);
  }
  move_items(t.rows);
}

// Returns false if another way is faster. Between rows that are less than a page apart, no page can be missing.
// [case stride -2, last axis, 4 MB, out, rows of 31, uint8]
template <class T, int64_t kStep>
bool copy_by_spilling_rows(const Tile& t) {
  constexpr bool kShuffles = kShufflesBytes || kIsNeon;
  if constexpr ((kStep == -1 && sizeof(T) < kVectorBytes) || kLoadsStrided<T, kStep> || (kShuffles && sizeof(T) < 16)) {
    constexpr int64_t kApart = kStep < 0 ? -kStep : kStep;
    constexpr int64_t kFewest = std::max<int64_t>(kShuffles || sizeof(T) >= 4 ? 3 : 5, kApart);  // items, for the loads
    // Longer rows are better aligned. [case stride -2, last axis, 4 MB, out, rows of 1001, uint8]
    constexpr int64_t kMostBytes = 12 * kVectorBytes;
    const int64_t apart = std::abs(t.src_row_stride), bytes = t.n * int64_t(sizeof(T));
    const int64_t gap = (apart - (t.n - 1) * kApart - 1) * int64_t(sizeof(T));
    if (t.dst_row_stride != t.n || t.n < kFewest || bytes > kMostBytes || apart == 0 || gap >= kPageBytes) return false;
    constexpr int64_t kNarrow = kFewest * int64_t(sizeof(T)) <= 16 ? 16 : kVectorBytes;
    (bytes <= 16 ? copy_spilling_rows<T, kStep, kNarrow> : copy_spilling_rows<T, kStep, kVectorBytes>)(t);
    return true;
  }
  return false;
}

// Read in the direction of the next row. [case stride -4, last axis, 4 MB]
template <class T, int64_t kStep>
void copy_strided_rows_at(const Tile& t) {
  if constexpr (kStep == -1) {
    constexpr int64_t kShortRow = 16;  // bytes; too few for vectors
    return t.n * int64_t(sizeof(T)) < kShortRow ? copy_strided_rows<T>(t) : copy_reversed_rows<T>(t);
  } else {
    if constexpr (kStep < 0)
      if (t.rows > 1 && t.src_row_stride > 0) return copy_strided_rows_towards<T, kStep, false>(t);
    copy_strided_rows_towards<T, kStep, true>(t);
  }
}

// Calls move<stride>() if the stride is one that has loops of its own; otherwise returns false.
template <class Move>
bool at_stride(int64_t stride, Move move) {
  switch (stride) {
    case -1:
      return move.template operator()<-1>();
    case 2:
      return move.template operator()<2>();
    case -2:
      return move.template operator()<-2>();
    case 3:
      return move.template operator()<3>();
    case -3:
      return move.template operator()<-3>();
    case 4:
      return move.template operator()<4>();
    case -4:
      return move.template operator()<-4>();
    default:
      return false;
  }
}
