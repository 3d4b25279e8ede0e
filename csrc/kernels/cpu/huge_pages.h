#pragma once

#include <cstdint>

#include "engine.h"

namespace torch_dml_ops::cpu {

// Backs new memory, which nobody has written to yet, with huge pages of 2 MB where the system has any: faulting in 4 KB
// pages takes longer than filling a large result. Does nothing below 32 MB: malloc may return such memory with its
// pages in place already. Huge pages that reach beyond the memory are left alone. TORCH_DML_OPS_HUGE_PAGES=0 switches
// this off.
void prefault_huge_pages(void* memory, int64_t bytes, ParallelFor parallel_for);

}  // namespace torch_dml_ops::cpu
