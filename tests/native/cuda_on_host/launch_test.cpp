// What the CUDA engine asks of CUDA's runtime, by the emulation's: what it asks only once, on which device, from many
// threads, during a capture, and what it says where something fails. Prints a line for everything that is right.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../../csrc/kernels/cuda/launch.h"

static std::atomic<int64_t> allocations = 0;

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace torch_dml_ops;

namespace {

// A reversal of float32 with a length for each column, which is executed in panels in shared memory.
struct Columns {
  int64_t axis_size, columns;
  std::vector<float> src = std::vector<float>(std::size_t(axis_size * columns)), dst = src;
  std::vector<int32_t> lengths = std::vector<int32_t>(std::size_t(columns));

  Columns(int64_t axis_size_, int64_t columns_) : axis_size(axis_size_), columns(columns_) {
    for (std::size_t k = 0; k < src.size(); ++k) src[k] = float(k);
    for (std::size_t c = 0; c < lengths.size(); ++c) lengths[c] = int32_t(c * 7) % int32_t(axis_size + 1);
  }
  void reverse() {
    ReverseCopy plan{4,
                     reinterpret_cast<char*>(dst.data()),
                     reinterpret_cast<const char*>(src.data()),
                     lengths.data(),
                     LengthType::kInt32,
                     {}};
    plan.dims = {{axis_size, columns, columns, 0, true}, {columns, 1, 1, 1, false}};
    cuda::execute(std::move(plan), nullptr);
  }
  bool right() const {
    for (int64_t i = 0; i < axis_size; ++i)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t length = lengths[std::size_t(c)], from = i < length ? length - 1 - i : i;
        if (dst[std::size_t(i * columns + c)] != src[std::size_t(from * columns + c)]) return false;
      }
    return true;
  }
};

void copy_row() {
  static char src[64], dst[64];
  cuda::execute(AffineCopies{1, {{dst, src, {plain_dim(64, 1, 1)}}}}, nullptr);
}

// Devices are numbered as they are used, so that each test has devices on which nothing has run.
int new_device(const cuda_on_host::Device& device = {}) {
  static int next = 0;
  cuda_on_host::current_device = next;
  cuda_on_host::devices[std::size_t(next)] = device;
  cuda_on_host::runtime_calls = {};
  return next++;
}

bool asks_once_per_device() {
  const int first = new_device(), second = new_device();
  Columns few(64, 64), many(192, 64);
  for (int round = 0; round < 3; ++round)
    for (const int device : {first, second}) {
      cuda_on_host::current_device = device;
      few.reverse();
      many.reverse();
      copy_row();
    }
  const auto& calls = cuda_on_host::runtime_calls;
  std::set<int64_t> limits;
  for (const auto& [key, kernel] : cuda_on_host::kernels)
    if (key.second == first || key.second == second) limits.insert(kernel.max_dynamic_shared_bytes);
  const int64_t most = cuda_on_host::Device{}.max_shared_bytes_per_block - cuda_on_host::kStaticSharedBytes;
  const int64_t unless_asked = cuda_on_host::kDefaultSharedBytes - cuda_on_host::kStaticSharedBytes;
  // On each device 4 attributes; of two kernels, what loads them, and of one its limit too.
  return few.right() && many.right() && calls.device_attributes == 2 * 4 && calls.kernel_attributes == 2 * 3 &&
         calls.kernel_limits == 2 && limits == std::set{most, unless_asked};
}

bool threads_need_different_sizes() {
  const int device = new_device();
  std::vector<std::thread> threads;
  std::array<bool, 8> right{};
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&right, t, device] {
      cuda_on_host::current_device = device;
      Columns columns(40 + 35 * int64_t(t), 64);
      for (int k = 0; k < 10; ++k) columns.reverse();
      right[t] = columns.right();
    });
  for (std::thread& thread : threads) thread.join();
  return right == std::array{true, true, true, true, true, true, true, true} &&
         cuda_on_host::runtime_calls.kernel_limits == 1;
}

// On a device with so much shared memory, with columns of every length: three panels fit on an SM, two of 16 columns of
// float32 (two sectors), one of 8 or, if that does not fit, of 4 or 2, each with what CUDA reserves.
bool panels_fit_on_an_sm(int kib_per_sm, int reserved_kib) {
  cuda_on_host::Device device;
  device.shared_bytes_per_sm = kib_per_sm << 10;
  device.reserved_shared_bytes_per_block = reserved_kib << 10;
  device.max_shared_bytes_per_block = (kib_per_sm - reserved_kib) << 10;
  new_device(device);
  cuda_on_host::capturing = true;  // nothing has to run
  const int64_t longest = (device.max_shared_bytes_per_block - 512) / (2 * 4);
  Columns columns(longest, 128);
  std::set<int64_t> widths;
  bool fit = true;
  for (columns.axis_size = 64; columns.axis_size <= longest; ++columns.axis_size) {
    cuda_on_host::launched_shared_bytes = 0;
    columns.reverse();
    const int64_t width = cuda_on_host::launched_shared_bytes / (columns.axis_size * 4);
    const int64_t block = cuda_on_host::launched_shared_bytes + cuda_on_host::kStaticSharedBytes;
    const int64_t taken = (block + device.reserved_shared_bytes_per_block + 255) / 256 * 256;
    fit &= taken * (width > 16 ? 3 : width > 8 ? 2 : 1) <= device.shared_bytes_per_sm;
    widths.insert(width);
  }
  cuda_on_host::capturing = false;
  return fit && widths == std::set<int64_t>{2, 4, 8, 16, 32, 64};
}

bool captures_what_has_never_run() {
  new_device();
  cuda_on_host::capturing = true;
  Columns columns(192, 64);
  columns.reverse();
  copy_row();
  cuda_on_host::capturing = false;
  const bool idle = !columns.right();  // a capture runs nothing
  columns.reverse();
  return idle && columns.right() && !cuda_on_host::relaxed_capture;
}

// How many launches a split into so many pieces takes, of so many dimensions, and how large their parameters are.
struct Launches {
  int64_t count = 0;
  std::size_t parameter_bytes = 0;
  bool operator==(const Launches&) const = default;
};
Launches of_pieces(int64_t pieces, std::size_t rank) {
  static char src[1 << 16], dst[1 << 16];
  AffineCopies plan{1, {}};
  for (int64_t k = 0; k < pieces; ++k) {
    std::vector<CopyDim> dims(rank - 1, plain_dim(2, 0, 0));
    for (std::size_t d = 0; d + 1 < rank; ++d) dims[d] = plain_dim(2, 3 << (rank - 1 - d), 1 << (rank + 7 - d));
    dims.push_back(plain_dim(3, 1, 2));
    plan.copies.push_back({dst + (4 << rank) * k, src, dims});
  }
  Launches result;
  cuda_on_host::instead_of_launch = [&](const cuda_on_host::Launch& launch) {
    ++result.count;
    result.parameter_bytes = std::max(result.parameter_bytes, launch.parameter_bytes);
  };
  cuda::execute(std::move(plan), nullptr);
  cuda_on_host::instead_of_launch = nullptr;
  return result;
}

bool many_pieces_take_one_launch() {
  new_device();
  bool right = true;
  for (const int64_t max_index : {int64_t(INT32_MAX), int64_t(0)}) {
    cuda_on_host::max_32_bit_index = max_index;
    for (const std::size_t rank : {2, 4, 8}) {
      for (const int64_t pieces : {1, 2, 9, 64}) {
        const Launches launches = of_pieces(pieces, rank);
        const std::size_t most = pieces == 1 ? 1024 : pieces < 10 ? 4096 : rank == 2 && max_index > 0 ? 8192 : 32764;
        right &= launches.count == 1 && launches.parameter_bytes <= most;
      }
    }
  }
  cuda_on_host::max_32_bit_index = INT32_MAX;
  return right;
}

__global__ void nothing(int) {}

bool allocates_nothing() {
  new_device();
  cuda_on_host::capturing = true;  // so that the emulation, which allocates to run a kernel, does not
  int64_t before = 0;
  for (int k = 0; k < 2; ++k) {
    before = allocations;
    cuda::launch<nothing>("nothing", 7, 32, nullptr, 1, 60 << 10);
  }
  cuda_on_host::capturing = false;
  return allocations == before;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

bool reports_what_fails() {
  const std::pair<std::string, std::string> expected[] = {
      {"cudaGetDevice", "the current CUDA device is not known: unknown error"},
      {"cudaDeviceGetAttribute", "an attribute of the CUDA device is not known: unknown error"},
      {"cudaDriverGetVersion", "the version of the CUDA driver is not known: unknown error"},
      {"cudaFuncGetAttributes", "the CUDA kernel reverse_panels cannot be loaded: unknown error"},
      {"cudaFuncSetAttribute", "a CUDA kernel cannot have all the shared memory of the device: unknown error"}};
  new_device();
  Columns columns(192, 64);
  for (const auto& [function, text] : expected) {  // what failed is asked again the next time
    cuda_on_host::failing = function;
    const std::string got = refusal([&] { columns.reverse(); });
    cuda_on_host::failing.clear();
    if (got != text) {
      std::printf("where %s fails, it says: %s\n", function.c_str(), got.c_str());
      return false;
    }
  }
  columns.reverse();
  if (!columns.right()) return false;
  const std::string too_large = refusal([] { cuda::launch<nothing>("nothing", 2, 32, nullptr, 1, 100 << 10); });
  cuda_on_host::current_device = 128;
  const std::string unknown = refusal(copy_row);
  const std::string too_many = refusal([] { cuda::checked_chunks(int64_t(1) << 31); });
  return too_large ==
             "the CUDA kernel nothing did not launch with 2 blocks of 32 threads and 102400 bytes of shared "
             "memory: invalid argument" &&
         unknown == "CUDA device 128 is not supported" && too_many == "a copy of 2147483648 chunks is too large";
}

}  // namespace

int main() {
  const std::pair<const char*, bool> checks[] = {
      {"kernels and devices are asked once", asks_once_per_device()},
      {"threads may need different amounts of shared memory", threads_need_different_sizes()},
      {"panels fit on an SM", panels_fit_on_an_sm(228, 1) && panels_fit_on_an_sm(164, 1) &&
                                  panels_fit_on_an_sm(100, 1) && panels_fit_on_an_sm(64, 0)},
      {"what has never run can be captured", captures_what_has_never_run()},
      {"64 pieces take one launch", many_pieces_take_one_launch()},
      {"a launch allocates nothing", allocates_nothing()},
      {"what fails is reported", reports_what_fails()},
  };
  bool right = true;
  for (const auto& [what, is_right] : checks) {
    if (is_right) std::puts(what);
    right &= is_right;
  }
  return right ? 0 : 1;
}
