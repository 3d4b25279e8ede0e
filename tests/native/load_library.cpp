// Loads the operators' library as a C++ program does that runs an exported model.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  const bool loaded = argc == 2 && dlopen(argv[1], RTLD_NOW);
  std::puts(loaded ? "loaded" : dlerror());
  return loaded ? 0 : 1;
}
