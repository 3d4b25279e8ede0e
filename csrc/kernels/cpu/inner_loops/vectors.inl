// Vectors, and values at addresses that need not be aligned. All may alias anything.

constexpr bool kShufflesBytes = kVectorBytes == 32;  // within each 16 bytes of a vector
typedef uint64_t Vector __attribute__((vector_size(kVectorBytes), may_alias));

// A T at any address. (A struct, because a type's attributes are lost when it becomes a template argument.)
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

// A vector of kBytes bytes at any address, as lanes that hold an item of type T or, of 16 bytes, half of one.
template <class T, int64_t kBytes = kVectorBytes>
struct __attribute__((packed, may_alias)) UnalignedLanes {
  using Lane = std::conditional_t<sizeof(T) == 16, uint64_t, T>;
  typedef Lane Lanes __attribute__((vector_size(kBytes)));
  static constexpr int64_t kLanes = kBytes / int64_t(sizeof(Lane));
  Lanes bits;
};

// Into the L2 cache.
inline void prefetch(const char* address) { __builtin_prefetch(address, 0, 2); }
inline void prefetch_to_write(char* address) { __builtin_prefetch(address, 1, 2); }

// A row of contiguous bytes, which is read soon: into the L1 cache.
inline void prefetch_row(const char* row, int64_t bytes) {
  for (int64_t k = 0; k < bytes; k += kCacheLineBytes) __builtin_prefetch(row + k, 0, 3);
}

// Rows of n items at a stride, to be read, or to be written where T is not const.
template <class T>
inline void prefetch_block(T* first, int64_t rows, int64_t stride, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; i += kCacheLineBytes / int64_t(sizeof(T)))
      if constexpr (std::is_const_v<T>)
        prefetch(reinterpret_cast<const char*>(first + r * stride + i));
      else
        prefetch_to_write(reinterpret_cast<char*>(first + r * stride + i));
}

// Lane k of the result is lane Order::at(k) of `a` and `b`, which are counted as one vector.
template <int64_t kLanes, class Lanes, class Order>
__attribute__((always_inline)) inline Lanes shuffle(Lanes a, Lanes b, Order) {
#if __has_builtin(__builtin_shufflevector)
  return [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, Order::at(int64_t(k))...);
  }(std::make_index_sequence<std::size_t(kLanes)>());
#else  // GCC before 12
  Lanes order{};
  for (int64_t k = 0; k < kLanes; ++k) order[k] = Order::at(k);
  return __builtin_shuffle(a, b, order);
#endif
}

// kBytes bytes, which are 16 or 32: 16 from each address, or from the first alone.
template <int64_t kBytes>
__attribute__((always_inline)) inline auto load_16_byte_rows(const void* first, [[maybe_unused]] const void* second) {
#ifdef __x86_64__  // of a plain load compilers make stores and shuffles besides
  using Row = __m128i;
  using Vec = typename UnalignedLanes<uint64_t, kBytes>::Lanes;
  if constexpr (kBytes == 32)
    return (Vec)_mm256_loadu2_m128i(static_cast<const Row*>(second), static_cast<const Row*>(first));
  else
    return (Vec)_mm_loadu_si128(static_cast<const Row*>(first));
#else
  static_assert(kBytes == 16);
  return static_cast<const UnalignedLanes<uint64_t, 16>*>(first)->bits;
#endif
}

// Whether aligning the stores to a row of so many bytes pays. [case stride -2, middle axis, 4 MB, out, rows of
// 333, uint8]
inline bool aligns(int64_t bytes) { return bytes >= 256; }

// Covers n items of a row, at least a vector's worth, by vectors: calls move(i) for each vector, which begins at item
// i. With `align`, all vectors but those at the ends are aligned in the destination; those at the ends may overlap
// others. kUpwards: in ascending order. [case stride -1, last axis, 4 MB]
template <class T, int64_t kBytes, bool kUpwards, class Move>
__attribute__((always_inline)) inline void cover_row(const T* dst, int64_t n, bool align, Move move) {
  constexpr auto kItems = kBytes / int64_t(sizeof(T));
  if constexpr (kUpwards) {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(dst) % kBytes) / int64_t(sizeof(T));
    int64_t i = 0;
    if (align && past) move(0), i = kItems - past;
#pragma GCC unroll 4
    for (; i + kItems <= n; i += kItems) move(i);
    if (i < n) move(n - kItems);
  } else {
    const int64_t past = int64_t(reinterpret_cast<uintptr_t>(dst + n) % kBytes) / int64_t(sizeof(T));
    int64_t i = n;
    if (align && past) move(n - kItems), i = n - past;
#pragma GCC unroll 4
    for (; i >= kItems; i -= kItems) move(i - kItems);
    if (i > 0) move(0);
  }
}
