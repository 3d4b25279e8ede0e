// Counts what the compiled kernels execute for plans that are given as text.
//
//     count_instructions < PLANS              for each launch, a line:
//                                             plan, kernel, blocks, how many of them were run, bytes stored by those,
//                                             and how often their warps ran each basic block
//     count_instructions kernels < PLANS      only the names of the kernels that are launched
//
// A plan is a line of numbers; addresses are bytes from the start of the destination's and the source's memory:
//
//     affine ITEM_SIZE COPIES                 and for each copy
//         DST SRC DIMS                        and for each dim: size dst_stride src_stride begin step count
//     reverse ITEM_SIZE LEAST MOST DIMS       lengths are between LEAST and MOST; and for each dim:
//                                             size dst_stride src_stride length_stride is_axis
//
// Launches are those of an H200. Of many blocks, a few that lie evenly among them are run.
#include <iostream>
#include <numeric>
#include <random>
#include <set>

#include "addresses.h"
#include "launches.h"

using namespace torch_dml_ops;
using cuda_compiled::u32;
using cuda_compiled::u64;

namespace {

constexpr int64_t kMemoryBytes = int64_t(32) << 30;  // addresses; of most of it nothing is touched
constexpr u32 kMaxBlocks = 8;                        // that are run of a launch

int64_t number(std::istream& in) {
  int64_t n = 0;
  if (!(in >> n)) cuda_compiled::fail("a plan ends early");
  return n;
}

void execute_affine(std::istream& in, char* dst, const char* src) {
  AffineCopies plan{number(in), std::vector<AffineCopy>(std::size_t(number(in)))};
  for (AffineCopy& copy : plan.copies) {
    copy.dst = dst + number(in);
    copy.src = src + number(in);
    copy.dims.resize(std::size_t(number(in)));
    for (CopyDim& d : copy.dims)
      for (int64_t* n : {&d.size, &d.dst_stride, &d.src_stride, &d.begin, &d.step, &d.count}) *n = number(in);
  }
  cuda::execute(std::move(plan), nullptr);
}

void execute_reverse(std::istream& in, char* dst, const char* src) {
  ReverseCopy plan{number(in), dst, src, nullptr, LengthType::kInt64, {}};
  const int64_t least = number(in), most = number(in);
  plan.dims.resize(std::size_t(number(in)));
  int64_t count = 1;
  for (ReverseDim& d : plan.dims) {
    for (int64_t* n : {&d.size, &d.dst_stride, &d.src_stride, &d.length_stride}) *n = number(in);
    d.is_axis = number(in) != 0;
    count += (d.size - 1) * d.length_stride;
  }
  std::mt19937_64 bits;
  std::vector<int64_t> lengths(static_cast<std::size_t>(count));
  for (int64_t& n : lengths) n = least + int64_t(bits() % u64(most - least + 1));
  plan.lengths = lengths.data();
  cuda::execute(std::move(plan), nullptr);
}

void count(const cuda_compiled::Launch& launch, int64_t plan) {
  const u32 chosen = std::min(launch.blocks, kMaxBlocks);
  std::vector<u32> blocks, threads(launch.kernel->threads);
  for (u32 k = 0; k < chosen; ++k) blocks.push_back(u32((2 * u64(k) + 1) * launch.blocks / (2 * chosen)));
  std::iota(threads.begin(), threads.end(), 0);
  std::vector<u64> visits(launch.kernel->blocks());
  cuda_compiled::accesses = {};
  cuda_compiled::run(launch, blocks, threads, &visits);
  int64_t stored = 0;
  for (int k = 0; k < 5; ++k) stored += cuda_compiled::accesses.stores[k] << k;
  std::cout << plan << ' ' << launch.kernel->name << ' ' << launch.blocks << ' ' << chosen << ' ' << stored;
  for (const u64 n : visits) std::cout << ' ' << n;
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_kernels = argc > 1 && std::string(argv[1]) == "kernels";
  cuda_on_host::devices[0] = cuda_compiled::h200();
  char *dst = cuda_compiled::reserve(kMemoryBytes), *src = cuda_compiled::reserve(kMemoryBytes);
  int64_t plan = 0;
  std::set<std::string> launched;
  cuda_on_host::instead_of_launch = [&](const cuda_on_host::Launch& launch) {
    if (only_kernels)
      launched.insert(cuda_compiled::name_of(launch.kernel));
    else
      count(cuda_compiled::translated(launch), plan);
  };
  for (std::string line; std::getline(std::cin, line); ++plan) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    (kind == "affine" ? execute_affine : execute_reverse)(in, dst, src);
    for (char* at : {dst, src}) madvise(at, std::size_t(kMemoryBytes), MADV_DONTNEED);
  }
  for (const std::string& name : launched) std::cout << name << '\n';
}
