// Writes what the warps of compiled kernels execute as traces for Accel-Sim, in its tracer's text, version 3.
//
//     trace_plans kernels < PLANS                   only the names of the kernels that are launched
//     trace_plans TABLES FOLDER SM_COUNT < PLANS    a folder of traces for each plan
//
// TABLES has a file for each kernel, which traces.py writes: the registers of its instructions. A plan is a line as
// text_plans.h says, with a name before it; or one of the kernels of plain_kernels.cu and its parameters, as
// numbers of 32 bits after the addresses of destination and source: plain NAME BLOCKS NUMBER …
#include <sys/stat.h>

#include <iostream>
#include <numeric>
#include <set>

#include "addresses.h"
#include "text_plans.h"

namespace cuda_compiled {
namespace {

constexpr int64_t kMemoryBytes = int64_t(1) << 30;

// An instruction, as a trace names it. Of wide ones `dsts` are the first of so many registers.
struct Entry {
  u32 pc = 0;
  std::string opcode;
  char space = '-';  // of an access to memory: g(lobal), s(hared) or c(onstant)
  int wide = 1;
  std::vector<int> dsts, srcs;
};

struct Table {
  int registers = 0;
  std::vector<std::vector<Entry>> blocks;

  explicit Table(const std::string& path) {
    std::ifstream in(path);
    std::size_t count = 0;
    if (!(in >> registers >> count)) fail("no table %s", path.c_str());
    blocks.resize(count);
    for (auto& block : blocks) {
      in >> count;
      block.resize(count);
      for (Entry& e : block) {
        in >> e.pc >> e.opcode >> e.space >> e.wide;
        for (auto* list : {&e.dsts, &e.srcs}) {
          in >> count;
          list->resize(count);
          for (int& r : *list) in >> r;
        }
      }
    }
  }
};

Memories memories;

// The same in every run, however the host places its memory.
u64 device_address(u64 at) {
  const std::pair<const char*, u64> places[] = {
      {memories.src, 0x1000'0000}, {memories.dst, 0x8000'0000}, {memories.lengths, 0x6000'0000}};
  for (const auto& [host, device] : places)
    if (at - u64(host) < u64(kMemoryBytes)) return device + (at - u64(host));
  fail("an address of no memory");
}

// Of a warp. Threads that go different ways are traced one way after the other, as add_warp_visits counts them.
class Tracer {
 public:
  Tracer(const Table& table, const std::vector<std::vector<u16>>& paths, const std::vector<std::vector<Access>>& logs)
      : table_(table), paths_(paths), logs_(logs), at_(paths.size()), next_(paths.size()) {}

  std::string run(u32 first) {
    text_.clear();
    lines_ = 0;
    for (int k = 0; k < 256; ++k) owner_[k] = k;
    std::vector<u32> lanes(kWarpThreads);
    std::iota(lanes.begin(), lanes.end(), first);
    run(lanes, kEnd);
    return "\nwarp = " + std::to_string(first / kWarpThreads) + "\ninsts = " + std::to_string(lines_) + "\n" + text_;
  }

 private:
  u16 upcoming(u32 t) const { return at_[t] == paths_[t].size() ? kEnd : paths_[t][at_[t]]; }

  void run(const std::vector<u32>& lanes, u16 until) {
    for (u16 block; (block = upcoming(lanes[0])) != until;) {
      for (const u32 t : lanes) ++at_[t];
      for (const Entry& e : table_.blocks[block]) add(e, lanes);
      std::map<u16, std::vector<u32>> ways;
      for (const u32 t : lanes) ways[upcoming(t)].push_back(t);
      if (ways.size() == 1) continue;
      const u16 meeting = running->meeting[block] < running->blocks() ? running->meeting[block] : kEnd;
      for (const auto& [next, way] : ways) run(way, meeting);
    }
  }

  // The address at which a thread executes the instruction; false if a predicate keeps it from that.
  bool address(const Entry& e, u32 t, u64& address) {
    const auto& log = logs_[t];
    std::size_t& next = next_[t];
    while (next < log.size() && log[next].visit < at_[t]) ++next;
    std::size_t k = next;
    while (k < log.size() && log[k].visit == at_[t] && log[k].where != e.pc) ++k;
    if (k == log.size() || log[k].visit != at_[t]) return false;
    next = k + 1;
    address = e.space == 'g' ? device_address(log[k].at) : e.space == 's' ? log[k].at - kSharedBase : log[k].at;
    return true;
  }

  void add(const Entry& e, const std::vector<u32>& lanes) {
    ++lines_;
    const bool is_memory = e.space != '-';
    u32 mask = 0;
    std::vector<u64> addresses;
    for (const u32 t : lanes) {
      u64 at = 0;
      if (is_memory ? !address(e, t, at) : e.opcode == "EXIT" && upcoming(t) != kEnd) continue;
      mask |= 1u << t % kWarpThreads;
      if (is_memory) addresses.push_back(at);
    }
    if (mask == 0) return put("%x ffffffff 0 NOP 0 0 0\n", e.pc);
    put("%x %x %zu", e.pc, mask, e.dsts.size());
    for (const int d : e.dsts) {
      for (int k = 0; k < e.wide; ++k) owner_[d + k] = d;
      put(" R%d", d);
    }
    std::set<int> srcs;  // what wide instructions write is named after the first register
    for (const int r : e.srcs) srcs.insert(owner_[r]);
    put(" %s %zu", e.opcode.c_str(), srcs.size());
    for (const int r : srcs) put(" R%d", r);
    if (!is_memory) return put(" 0 0\n");
    // A list of addresses, or the first and how far the others are apart, if that is always the same.
    const u64 apart = addresses.size() > 1 ? addresses[1] - addresses[0] : 0;
    bool even = addresses.size() > 1 && int(std::bit_width(mask >> std::countr_zero(mask))) == std::popcount(mask);
    for (std::size_t k = 1; k < addresses.size(); ++k) even = even && addresses[k] - addresses[k - 1] == apart;
    if (even) return put(" 4 1 %llx %lld 0\n", static_cast<unsigned long long>(addresses[0]), (long long)(apart));
    put(" 4 0");
    for (const u64 at : addresses) put(" %llx", static_cast<unsigned long long>(at));
    put(" 0\n");
  }

  template <class... Values>
  void put(const char* format, Values... values) {
    char line[128];
    std::snprintf(line, sizeof(line), format, values...);
    text_ += line;
  }

  const Table& table_;
  const std::vector<std::vector<u16>>& paths_;
  const std::vector<std::vector<Access>>& logs_;
  std::vector<std::size_t> at_, next_;  // where each thread is in its path, and in its log
  int owner_[256] = {};
  std::string text_;
  u64 lines_ = 0;
};

void trace(const Launch& launch, const std::string& tables, const std::string& folder, int number) {
  const Table table(tables + "/" + launch.kernel->name);
  const std::string name = "kernel-" + std::to_string(number) + ".traceg";
  std::ofstream(folder + "/kernelslist.g", number == 1 ? std::ios::out : std::ios::app) << name << "\n";
  std::ofstream file(folder + "/" + name);
  const u32 thread_count = launch.kernel->threads;
  file << "-kernel name = k" << number << "\n-kernel id = " << number << "\n-grid dim = (" << launch.blocks
       << ",1,1)\n-block dim = (" << thread_count
       << ",1,1)\n-shmem = " << launch.kernel->shared_bytes + launch.shared_bytes << "\n-nregs = " << table.registers
       << "\n-binary version = 80\n-cuda stream id = 0\n-shmem base_addr = 0x00007f0000000000\n"
          "-local mem base_addr = 0x00007f1000000000\n-nvbit version = 1.5\n-accelsim tracer version = 3\n"
          "-enable lineinfo = 0\n\n#traces format\n\n";
  std::vector<u32> order(thread_count);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<u16>> paths;
  std::vector<std::vector<Access>> logs;
  accesses = {};
  before_block = [&] {
    paths.assign(thread_count, {});
    logs.assign(thread_count, {});
    for (u32 i = 0; i < thread_count; ++i) {
      threads[i].path = &paths[i];
      threads[i].accesses = &logs[i];
    }
  };
  for (u32 block = 0; block < launch.blocks; ++block) {
    run(launch, {block}, order);
    running = launch.kernel;
    file << "#BEGIN_TB\n\nthread block = " << block << ",0,0\n";
    Tracer tracer(table, paths, logs);
    for (u32 first = 0; first < thread_count; first += kWarpThreads) file << tracer.run(first);
    file << "\n#END_TB\n\n";
  }
  before_block = [] {};
  std::cout << folder << ' ' << launch.kernel->name << ' ' << launch.blocks << ' ' << table.registers << std::endl;
}

}  // namespace
}  // namespace cuda_compiled

int main(int argc, char** argv) {
  using namespace cuda_compiled;
  const bool only_kernels = argc < 4;
  const int sm_count = only_kernels ? 1 : std::atoi(argv[3]);
  cuda_on_host::devices[0] = h200(sm_count);
  use_compiled_registers();
  memories = {reserve(kMemoryBytes), reserve(kMemoryBytes), reserve(kMemoryBytes)};
  std::set<std::string> launched;
  std::string folder;
  int launches = 0;
  cuda_on_host::instead_of_launch = [&](const cuda_on_host::Launch& launch) {
    if (only_kernels)
      launched.insert(name_of(launch.kernel));
    else
      trace(translated(launch), argv[1], folder, ++launches);
  };
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string name, kind;
    in >> name >> kind;
    launches = 0;
    folder = only_kernels ? "" : std::string(argv[2]) + "/" + name;
    if (!only_kernels) mkdir(folder.c_str(), 0777);
    if (kind != "plain") {
      execute_plan(kind, in, memories);
    } else if (!only_kernels) {
      std::string kernel;
      in >> kernel;
      const auto blocks = u32(number(in));
      std::vector<u32> parameters(4);
      const u64 addresses[] = {u64(memories.dst), u64(memories.src)};
      std::memcpy(parameters.data(), addresses, sizeof(addresses));
      for (int64_t n; in >> n;) parameters.push_back(u32(n));
      parameters.resize(64);
      trace({kernel_named(kernel), parameters.data(), blocks, 0}, argv[1], folder, ++launches);
    }
    for (char* at : {memories.dst, memories.src, memories.lengths})
      madvise(at, std::size_t(kMemoryBytes), MADV_DONTNEED);
  }
  for (const std::string& name : launched) std::cout << name << '\n';
}
