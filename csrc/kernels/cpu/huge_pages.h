#pragma once

#include <cstdint>

namespace torch_dml_ops::cpu {

// Asks the system for huge pages (of 2 MB mostly) behind new memory, which nobody has written to yet. Without them, the
// system takes longer to provide a large result page by page than the engine to fill it. It is advice: where there are
// none, or less than 4 MB of memory, nothing changes. Of pages that reach beyond the memory nothing is said.
// TORCH_DML_OPS_HUGE_PAGES=0 switches it off.
void advise_huge_pages(void* memory, int64_t bytes);

}  // namespace torch_dml_ops::cpu
