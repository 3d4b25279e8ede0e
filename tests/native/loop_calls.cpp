// Calls one of the CPU engine's inner loops: loop_calls LOOP ITEM_SIZE CALLS, of the SIMD level TORCH_DML_OPS_SIMD.
//
//   stride S, on the last axis; transpose; dilate STEP; interleave COUNT; rows reversed; columns reversed
//
// Each call writes kItems items in rows of kRow.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "../../csrc/kernels/cpu/inner_loops.h"

using namespace torch_dml_ops::cpu;

constexpr int64_t kRow = 252, kRows = 64, kItems = kRow * kRows;

int main(int, char** arguments) {
  const std::string_view loop = arguments[1];
  const int64_t by = std::atoll(arguments[2]), size = std::atoll(arguments[3]), calls = std::atoll(arguments[4]);
  const InnerLoops& loops = inner_loops();
  const int k = index_of_item_size(size);
  std::vector<char> from(std::size_t(5 * kItems * size)), to(from.size()), workspace(from.size());
  char *const src = from.data(), *const dst = to.data();
  const std::vector<int64_t> lengths(kRow, kRow - 5), heights(kRows, kRows - 5);
  const char* const sources[] = {src, src + size * kItems, src + 2 * size * kItems, src + 3 * size * kItems};
  for (int64_t call = 0; call < calls; ++call) {
    if (loop == "stride") {
      const char* const first = by < 0 ? src - by * (kRow - 1) * size : src;
      loops.copy_tile[k]({dst, first, kRows, kRow, kRow * std::abs(by), kRow, 1, by});
    } else if (loop == "transpose") {
      loops.copy_tile[k]({dst, src, kRows, kRow, 1, kRow, 1, kRows});
    } else if (loop == "dilate") {
      loops.dilate[k](dst, src, 1, kItems / by, by);
    } else if (loop == "interleave") {
      loops.interleave[k](dst, sources, by, kItems / by);
    } else if (loop == "rows") {
      loops.reverse_rows[k]({dst, src, lengths.data(), kRows, kRow, kRow, kRow, 0});
    } else if (loop == "columns") {
      loops.reverse_panel[k]({dst, src, heights.data(), kRows, kRow, kRows, kRows, workspace.data(), false});
    } else {
      return 2;
    }
  }
}
