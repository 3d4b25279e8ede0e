#include "huge_pages.h"

#include <cstdlib>
#include <string_view>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace torch_dml_ops::cpu {

void advise_huge_pages(void* memory, int64_t bytes) {
#ifdef __linux__
  constexpr int64_t kLeastBytes = 4 << 20;  // two huge pages: of less, there may be none that lies wholly inside
  static const bool wanted = [] {
    const char* set = std::getenv("TORCH_DML_OPS_HUGE_PAGES");
    return !set || std::string_view(set) != "0";
  }();
  if (!wanted || bytes < kLeastBytes) return;
  static const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + uintptr_t(bytes)) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

}  // namespace torch_dml_ops::cpu
