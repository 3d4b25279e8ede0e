// Columns of a reversal with lengths of their own, straight from the source by gather instructions: at 4 and 8 bytes an
// item faster than panels, where gathers are.

template <class T>
struct GatherLanes;
template <>
struct GatherLanes<Item4> {
  typedef int32_t Numbers __attribute__((vector_size(64)));
  using Mask = __mmask16;
  static Mask less(Numbers a, Numbers b) { return _mm512_cmplt_epi32_mask(__m512i(a), __m512i(b)); }
  static __m512i load(Mask mask, const Item4* src) { return _mm512_maskz_loadu_epi32(mask, src); }
  static void store(Mask mask, Item4* dst, __m512i items) { _mm512_mask_storeu_epi32(dst, mask, items); }
  static __m512i gather(__m512i otherwise, Mask mask, const Item4* src, Numbers offsets) {
    return _mm512_mask_i32gather_epi32(otherwise, mask, __m512i(offsets), src, sizeof(Item4));
  }
};
template <>
struct GatherLanes<Item8> {
  typedef int64_t Numbers __attribute__((vector_size(64)));
  using Mask = __mmask8;
  static Mask less(Numbers a, Numbers b) { return _mm512_cmplt_epi64_mask(__m512i(a), __m512i(b)); }
  static __m512i load(Mask mask, const Item8* src) { return _mm512_maskz_loadu_epi64(mask, src); }
  static void store(Mask mask, Item8* dst, __m512i items) { _mm512_mask_storeu_epi64(dst, mask, items); }
  static __m512i gather(__m512i otherwise, Mask mask, const Item8* src, Numbers offsets) {
    return _mm512_mask_i64gather_epi64(otherwise, mask, __m512i(offsets), src, sizeof(Item8));
  }
};

// The first columns of a panel, up to kGathered<T>, row by row. What lies to their right, which is next, is prefetched.
constexpr int64_t kVectors = 4;
template <class T>
constexpr int64_t kGathered = kVectors * 64 / int64_t(sizeof(T));

template <class T>
void gather_columns(const Panel& p) {
  using Lanes = GatherLanes<T>;
  using Numbers = typename Lanes::Numbers;
  using Number = std::remove_cvref_t<decltype(Numbers()[0])>;
  constexpr int64_t kLanes = kGathered<T> / kVectors;
  typename Lanes::Mask mask[kVectors];
  Numbers length[kVectors], offset[kVectors];  // of each column; of its source from the same row's
  int64_t longest = 0;
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t columns = std::clamp<int64_t>(p.columns - v * kLanes, 0, kLanes);
    mask[v] = typename Lanes::Mask((1u << columns) - 1);
    length[v] = Numbers{};
    for (int64_t k = 0; k < columns; ++k) {
      length[v][k] = Number(p.lengths[v * kLanes + k]);
      longest = std::max(longest, p.lengths[v * kLanes + k]);
    }
    for (int64_t k = 0; k < kLanes; ++k) offset[v][k] = Number((length[v][k] - 1) * p.src_axis_stride + k);
  }
  const T* src = reinterpret_cast<const T*>(p.src);
  T* dst = reinterpret_cast<T*>(p.dst);
  const Numbers two_rows = Numbers{} + Number(2 * p.src_axis_stride);
  for (int64_t i = 0; i < p.axis_size; ++i) {
    for (int64_t v = 0; v < kVectors; ++v) {
      __m512i items = Lanes::load(mask[v], src + v * kLanes);
      if (i < longest) {
        const auto turned = Lanes::less(Numbers{} + Number(i), length[v]);
        items = Lanes::gather(items, turned, src + v * kLanes, offset[v]);
        offset[v] -= two_rows;
      }
      Lanes::store(mask[v], dst + v * kLanes, items);
      prefetch(reinterpret_cast<const char*>(src + (kVectors + v) * kLanes));
      prefetch_to_write(reinterpret_cast<char*>(dst + (kVectors + v) * kLanes));
    }
    src += p.src_axis_stride;
    dst += p.dst_axis_stride;
  }
}

// [case reverse axis 1, a length per column, 4 MB, out]
template <class T>
void gather_panel(const Panel& panel) {
  Panel p = panel;
  const int64_t reach = p.axis_size * std::abs(p.src_axis_stride) + kGathered<T>;
  if (sizeof(T) == 4 && reach > std::numeric_limits<int32_t>::max()) return reverse_panel<T>(p);
  for (; p.columns > 0; p.columns -= kGathered<T>) {
    gather_columns<T>(p);
    p.dst += kGathered<T> * int64_t(sizeof(T));
    p.src += kGathered<T> * int64_t(sizeof(T));
    p.lengths += kGathered<T>;
  }
}

constexpr InnerLoops kWithGathers = [] {
  InnerLoops loops = kInnerLoops;
  loops.level = "avx512_gather";
  loops.reverse_panel[index_of_item_size(4)] = gather_panel<Item4>;
  loops.reverse_panel[index_of_item_size(8)] = gather_panel<Item8>;
  return loops;
}();
