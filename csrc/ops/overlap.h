// Whether strided views share memory, decided exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_dml_ops {

// A strided view: where it starts, in bytes, and its sizes and strides in items of item_size bytes.
struct View {
  int64_t address;
  int64_t item_size;
  std::span<const int64_t> sizes, strides;
};

enum class Overlap { kNone, kSome, kTooComplicated };

// Whether two different indices of the view name the same memory.
Overlap overlaps_itself(const View& view);

// Whether any byte belongs to both views.
Overlap overlap(const View& a, const View& b);

// Two of the views that share memory, by their indices, the larger one first; kNone if no two do.
struct Pair {
  Overlap overlap;
  std::size_t second, first;
};
Pair find_overlap(std::span<const View> views);

}  // namespace torch_dml_ops
