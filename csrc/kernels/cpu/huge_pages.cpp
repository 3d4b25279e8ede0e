#include "huge_pages.h"

#include <cstdlib>
#include <string_view>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace torch_dml_ops::cpu {

void prefault_huge_pages(void* memory, int64_t bytes, ParallelFor parallel_for) {
#ifdef __linux__
  constexpr int64_t kLeastBytes = 32 << 20;
  constexpr uintptr_t kHuge = 2 << 20;
  static const bool wanted = [] {
    const char* set = std::getenv("TORCH_DML_OPS_HUGE_PAGES");
    return !set || std::string_view(set) != "0";
  }();
  if (!wanted || bytes < kLeastBytes) return;
  static const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(memory), last = first + uintptr_t(bytes);
  const uintptr_t begin = (first + page - 1) / page * page, end = last / page * page;
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) != 0) return;
  // Linux clears the 4 KB around the touched byte last and the rest towards it. Touching the last byte makes it go
  // upwards, which is more than twice as fast as downwards. (Measured on the benchmark's fresh results of 128 MB.)
  const uintptr_t begin_huge = (first + kHuge - 1) / kHuge, end_huge = last / kHuge;
  parallel_for(int64_t(end_huge - begin_huge), 4, [&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k)
      *reinterpret_cast<volatile char*>((begin_huge + uintptr_t(k) + 1) * kHuge - 1) = 0;
  });
#else
  (void)memory;
  (void)bytes;
  (void)parallel_for;
#endif
}

}  // namespace torch_dml_ops::cpu
