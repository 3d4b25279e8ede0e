#pragma once

#include <cstdint>

#include "engine.h"

namespace torch_dml_ops::cpu {

// Puts huge pages of 2 MB behind new memory, which nobody has written to yet, where the system gives any. Page by page
// of 4 KB, the system takes longer to provide a large result than the engine to fill it. Only results of 32 MB and more
// are always new: smaller memory comes back from malloc with its pages. Of pages that reach beyond the memory nothing
// is said, and nothing beyond it is touched. TORCH_DML_OPS_HUGE_PAGES=0 switches it off.
void prefault_huge_pages(void* memory, int64_t bytes, ParallelFor parallel_for);

}  // namespace torch_dml_ops::cpu
