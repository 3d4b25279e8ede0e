#include "../affine_copy.h"

#include <algorithm>
#include <vector>

#include "engine.h"
#include "rows.h"

namespace torch_dml_ops::cpu {
namespace {

constexpr char kZeroItem[kWidestItem] = {};

// Where a row's source lies along one outer dimension.
struct Place {
  int64_t src_offset;  // in items
  bool zero;           // the index reads nothing
};

Place place(const CopyDim& d, int64_t index) {
  if (d.reads_all()) return {index * d.src_stride, false};
  const int64_t distance = index - d.begin, q = distance / d.step;
  if (distance < 0 || distance % d.step != 0 || q >= d.count) return {0, true};
  return {q * d.src_stride, false};
}

// Items [first, first + n) of a row. `src` is where index 0 of the row's window is read, or null where all is zero.
void write_row(const CopyDim& row, int64_t item_size, CopyRow copy, char* dst, const char* src, int64_t first,
               int64_t n) {
  const auto at = [&](int64_t index) { return dst + index * row.dst_stride * item_size; };
  const auto zero = [&](int64_t from, int64_t to) {
    if (from < to) copy(at(from), row.dst_stride, kZeroItem, 0, to - from);
  };
  const int64_t end = first + n;
  if (!src) return zero(first, end);
  if (row.reads_all())
    return copy(at(first), row.dst_stride, src + first * row.src_stride * item_size, row.src_stride, n);
  const auto steps_until = [&](int64_t index) {  // how many of the window's items lie before `index`
    return index <= row.begin ? 0 : std::min(row.count, (index - row.begin + row.step - 1) / row.step);
  };
  const int64_t q = steps_until(first), q_end = steps_until(end);
  if (q == q_end) return zero(first, end);
  const int64_t window = row.begin + q * row.step, window_end = row.begin + (q_end - 1) * row.step + 1;
  zero(first, window);
  if (row.step > 1) zero(window, window_end);
  copy(at(window), row.dst_stride * row.step, src + q * row.src_stride * item_size, row.src_stride, q_end - q);
  zero(window_end, end);
}

// Elements [begin, end) of the destination, counted in the order of the dimensions.
void run_range(const AffineCopy& copy, int64_t item_size, CopyRow copy_row, int64_t begin, int64_t end) {
  const CopyDim row = copy.dims.empty() ? plain_dim(1, 1, 1) : copy.dims.back();
  const std::size_t outer = copy.dims.empty() ? 0 : copy.dims.size() - 1;
  std::vector<int64_t> index(outer);
  std::vector<Place> places(outer);
  int64_t rest = begin / row.size, first = begin % row.size;
  for (std::size_t k = outer; k-- > 0;) {
    index[k] = rest % copy.dims[k].size;
    rest /= copy.dims[k].size;
    places[k] = place(copy.dims[k], index[k]);
  }
  while (begin < end) {
    int64_t dst = 0, src = 0;
    bool zero = false;
    for (std::size_t k = 0; k < outer; ++k) {
      dst += index[k] * copy.dims[k].dst_stride;
      src += places[k].src_offset;
      zero |= places[k].zero;
    }
    const int64_t n = std::min(row.size - first, end - begin);
    write_row(row, item_size, copy_row, copy.dst + dst * item_size, zero ? nullptr : copy.src + src * item_size, first,
              n);
    begin += n;
    first = 0;
    for (std::size_t k = outer; k-- > 0;) {
      const bool carry = ++index[k] == copy.dims[k].size;
      if (carry) index[k] = 0;
      places[k] = place(copy.dims[k], index[k]);
      if (!carry) break;
    }
  }
}

}  // namespace

void run(AffineCopies plan, ParallelFor parallel_for) {
  std::vector<int64_t> ends;  // of each copy, in elements of all copies one after another
  int64_t total = 0;
  for (AffineCopy& copy : plan.copies) {
    normalize(copy);
    total += copy.numel();
    ends.push_back(total);
  }
  const CopyRow copy_row = rows().copy[index_of_item_size(plan.item_size)];
  parallel_for(total, kGrainBytes / plan.item_size, [&](int64_t begin, int64_t end) {
    auto k = std::size_t(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
    for (; begin < end; begin = ends[k++]) {
      const int64_t start = k == 0 ? 0 : ends[k - 1];
      run_range(plan.copies[k], plan.item_size, copy_row, begin - start, std::min(end, ends[k]) - start);
    }
  });
}

}  // namespace torch_dml_ops::cpu
