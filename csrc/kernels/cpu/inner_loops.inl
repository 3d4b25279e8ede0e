// The inner loops of the CPU engine. Included by a file for every SIMD level, inner_loops_<level>.cpp, inside that
// level's namespace and target options. They are plain loops: levels differ in what the compiler makes of them and in
// kVectorBytes.
//
//   tile     rows of n items at any strides             -> copy_tile, which picks the loop for its strides
//   segment  contiguous bytes of the destination        -> copy_segments, copy_segments_non_temporal
//   rows     each reversed up to a length of its own    -> reverse_rows
//   panel    columns of a reversal, each with a length  -> reverse_panel; gather.inl has another for one level
//   vector   kVectorBytes (16 or 32), loaded and stored at once
//

// clang-format off: files use those before them
#include "inner_loops/vectors.inl"
#include "inner_loops/copy.inl"
#include "inner_loops/transpose.inl"
#include "inner_loops/reverse.inl"
#include "inner_loops/strided.inl"
#include "inner_loops/dilate.inl"
#include "inner_loops/interleave.inl"
#include "inner_loops/non_temporal.inl"
// clang-format on

template <class T>
void copy_tile(const Tile& tile) {
  const Tile t = tile;  // a copy, because for all the compiler knows a store could change `tile`
  if (t.n > 1 && t.dst_stride == 1 && t.src_stride == 1) return copy_contiguous_tile<T>(t);
  const auto by_spilling = [&]<int64_t kStep>() { return copy_by_spilling_rows<T, kStep>(t); };
  if (t.dst_stride == 1 && at_stride(t.src_stride, by_spilling)) return;
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
    if (t.src_stride == 0) return fill_rows<T>(t);
    if (at_stride(t.src_stride, [&]<int64_t kStep>() { return copy_strided_rows_at<T, kStep>(t), true; })) return;
    if ((t.src_row_stride == 1 || t.src_row_stride == -1) && t.rows > 1) return transpose_tile<T>(t);
    return copy_strided_src_rows<T>(t);
  }
  copy_strided_rows<T>(t);
}

#define BY_ITEM_SIZE(function) {function<Item1>, function<Item2>, function<Item4>, function<Item8>, function<Item16>}
constexpr InnerLoops kInnerLoops = {kLevel,
                                    BY_ITEM_SIZE(copy_tile),
                                    BY_ITEM_SIZE(dilate),
                                    BY_ITEM_SIZE(copy_windowed_rows),
                                    BY_ITEM_SIZE(interleave),
                                    BY_ITEM_SIZE(reverse_rows),
                                    BY_ITEM_SIZE(reverse_panel),
                                    copy_segments,
                                    copy_segments_non_temporal,
                                    BY_ITEM_SIZE(copy_strided_segments_non_temporal)};
#undef BY_ITEM_SIZE
