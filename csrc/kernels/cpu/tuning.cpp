#ifdef __linux__
#include <unistd.h>
#endif

#include "engine.h"

namespace torch_dml_ops::cpu {

Tuning tuning_here() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  return tuning_for(sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
  return {};
#endif
}

}  // namespace torch_dml_ops::cpu
