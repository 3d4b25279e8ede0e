// What translated kernels run on: memory that checks every access, barriers, the instructions that C++ lacks, and the
// paths of warps. Kernels know nothing of plans; check_plans.cpp says what they may access.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace cuda_compiled {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using u128 = unsigned __int128;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

// ---- Kernels ----

// An access to memory, by the instruction at `where` in the visit-th basic block that the thread ran.
struct Access {
  u32 where, visit, bytes;
  u64 at;
};

struct Thread {
  u32 tid, ctaid, ntid, nctaid;
  std::vector<u16>* path = nullptr;         // the basic blocks that it runs, if they are recorded
  std::vector<Access>* accesses = nullptr;  // likewise, besides a path
  void note(int where, u64 at, u32 bytes) const {
    if (accesses) accesses->push_back({u32(where), u32(path->size()), bytes, at});
  }
};

struct Kernel {
  const char* name;  // as plain_name in kernels.py says
  void (*run)(Thread&);
  u32 parameter_bytes, threads, shared_bytes, registers;  // shared memory without the dynamic part
  bool has_barriers;
  u64* visits;               // how often each basic block ran
  std::vector<u16> meeting;  // for each basic block, where threads that part after it meet again

  std::size_t blocks() const { return meeting.size(); }
};

inline std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}
struct Registration {
  explicit Registration(Kernel kernel) { kernels().push_back(std::move(kernel)); }
};

inline const Kernel* running = nullptr;
inline std::function<void()> describe = [] {};  // prints what is being checked

// Reports a mismatch and ends the program.
[[noreturn]] inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::printf("MISMATCH ");
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n  kernel %s\n", running ? running->name : "none");
  describe();
  std::fflush(stdout);
  std::_Exit(3);
}

inline u64 max_visits = 4'000'000'000;  // of basic blocks, in a launch
inline u64 visits_left = 0;

inline void visit(const Thread& t, u64& visits, u16 block) {
  ++visits;
  if (--visits_left == 0) fail("does not end");
  if (t.path) t.path->push_back(block);
}

// ---- Global memory ----

struct Interval {
  u64 begin, end;
  bool holds(u64 at, u64 width) const { return begin <= at && at + width <= end; }
};

constexpr u64 kGranuleBytes = 16;  // the widest load

// What a launch may access. Loads lie within what a copy reaches, and in 16 bytes of which at least one is needed, or
// beside them, as a vector that is not aligned is loaded by the two around it, at the end of a row too. Stores write
// every byte of `writable` once.
struct Allowed {
  bool everything = true;
  std::vector<Interval> readable;              // they may overlap
  std::vector<u64> granules;                   // sorted; addresses divided by kGranuleBytes
  std::vector<Interval> writable;              // sorted, apart
  std::vector<std::vector<u8>> times_written;  // of each byte of `writable`
};
inline Allowed allowed;

struct Accesses {
  int64_t loads[5] = {}, stores[5] = {};  // of 1, 2, 4, 8 and 16 bytes
};
inline Accesses accesses;

template <class T>
[[noreturn]] void refuse(const Thread& t, const char* what, u64 at, const T& v, int where, const char* why) {
  fail("at %d (%x): thread %u of block %u %s %zu bytes at %llx, %s", where, unsigned(where), t.tid, t.ctaid, what,
       sizeof(v), static_cast<unsigned long long>(at), why);
}

template <class T, int N>
void load_global(const Thread& t, T (&v)[N], u64 at, int where, u32 used_bytes = ~0u) {
  t.note(where, at, sizeof(v));
  if (at % sizeof(v) != 0) refuse(t, "loads", at, v, where, "which is not aligned");
  if (!allowed.everything) {
    const auto reached = [&](const Interval& i) { return i.holds(at, sizeof(v)); };
    if (std::none_of(allowed.readable.begin(), allowed.readable.end(), reached))
      refuse(t, "loads", at, v, where, "which no copy reaches");
    const u64 granule = at / kGranuleBytes;
    const auto near = std::lower_bound(allowed.granules.begin(), allowed.granules.end(), granule - 1);
    if (near == allowed.granules.end() || *near > granule + 1)
      refuse(t, "loads", at, v, where, "of which nothing is needed");
  }
  ++accesses.loads[std::countr_zero(sizeof(v))];
  std::memcpy(v, reinterpret_cast<const void*>(at), sizeof(v));
  for (u32 k = 0; k < sizeof(v); ++k)  // what the compiler says it does not use
    if ((used_bytes >> k & 1) == 0) reinterpret_cast<u8*>(v)[k] = 0xCB;
}

template <class T, int N>
void store_global(const Thread& t, const T (&v)[N], u64 at, int where) {
  t.note(where, at, sizeof(v));
  if (at % sizeof(v) != 0) refuse(t, "stores", at, v, where, "which is not aligned");
  if (!allowed.everything) {
    const auto after = std::upper_bound(allowed.writable.begin(), allowed.writable.end(), at,
                                        [](u64 address, const Interval& i) { return address < i.begin; });
    if (after == allowed.writable.begin() || !after[-1].holds(at, sizeof(v)))
      refuse(t, "stores", at, v, where, "which no copy writes");
    u8* times = &allowed.times_written[std::size_t(after - allowed.writable.begin()) - 1][at - after[-1].begin];
    for (u32 k = 0; k < sizeof(v); ++k)
      if (++times[k] > 1) refuse(t, "stores", at, v, where, "some of them a second time");
  }
  ++accesses.stores[std::countr_zero(sizeof(v))];
  std::memcpy(reinterpret_cast<void*>(at), v, sizeof(v));
}

// ---- Parameters ----

constexpr u64 kParameterBase = 0x200;  // an address that nothing else has
inline std::vector<u8> parameters;

template <class T, int N>
void load_param(const Thread&, T (&v)[N], u64 at, int where) {
  const u64 offset = at - kParameterBase;
  if (offset % sizeof(v) != 0) fail("at %d (%x): a parameter that is not aligned", where, unsigned(where));
  if (offset + sizeof(v) > parameters.size() || offset + sizeof(v) < offset)
    fail("at %d (%x): a parameter past the end", where, unsigned(where));
  std::memcpy(v, parameters.data() + offset, sizeof(v));
}

// SASS reads parameters from constant bank 0, where they begin at 0x210. Of what lies before them it reads the grid's
// size, the end of the stack, and how to access global memory, of which only the first means anything here.
template <class T, int N>
void load_constant(const Thread& t, T (&v)[N], u32 at, int where) {
  t.note(where, at, sizeof(v));
  constexpr u32 kGridSize = 0xc, kStackEnd = 0x28, kGlobalMemory = 0x208, kParameters = 0x210;
  if (at >= kParameters) return load_param(t, v, kParameterBase + at - kParameters, where);
  if (at != kGridSize && at != kStackEnd && at != kGlobalMemory) fail("at %x: constant %x", unsigned(where), at);
  for (T& x : v) x = T(at == kGridSize ? t.nctaid : 0);
}
inline u32 constant(const Thread& t, u32 at, int where) {
  u32 v[1];
  load_constant(t, v, at, where);
  return v[0];
}

// ---- Shared memory ----

constexpr u32 kSharedBase = 0x400;
struct SharedByte {
  u8 value = 0xA7;
  bool written = false, many_readers = false;
  u32 writer = 0, reader = 0;
  u64 written_in = 0, read_in = 0;  // which phase
};
inline std::vector<SharedByte> shared;
inline u32 static_shared_bytes = 0;  // of `shared`; the rest is dynamic
inline u64 phase = 1;                // what runs from one barrier to the next

inline SharedByte* shared_at(const Thread& t, u64 at, u32 width, int where) {
  const u64 offset = at - kSharedBase;
  if (at % width != 0) fail("at %d (%x): thread %u: shared memory, not aligned", where, unsigned(where), t.tid);
  const bool is_static = offset + width <= static_shared_bytes;
  const bool is_dynamic = offset >= static_shared_bytes && offset + width <= shared.size();
  if (at < kSharedBase || !(is_static || is_dynamic))
    fail("at %d (%x): thread %u: shared memory, out of bounds", where, unsigned(where), t.tid);
  return &shared[offset];
}

[[noreturn]] inline void race(const Thread& t, int where, const char* what, u32 other) {
  fail("at %d (%x): threads %u and %u %s a byte of shared memory without a barrier between", where, unsigned(where),
       t.tid, other, what);
}

template <class T, int N>
void load_shared(const Thread& t, T (&v)[N], u64 at, int where) {
  t.note(where, at, sizeof(v));
  SharedByte* b = shared_at(t, at, sizeof(v), where);
  for (u32 k = 0; k < sizeof(v); ++k, ++b) {
    if (!b->written) fail("at %d (%x): thread %u reads what nothing wrote", where, unsigned(where), t.tid);
    if (b->written_in == phase && b->writer != t.tid) race(t, where, "read and write", b->writer);
    b->many_readers = b->read_in == phase && (b->many_readers || b->reader != t.tid);
    b->reader = t.tid;
    b->read_in = phase;
    reinterpret_cast<u8*>(v)[k] = b->value;
  }
}

template <class T, int N>
void store_shared(const Thread& t, const T (&v)[N], u64 at, int where) {
  t.note(where, at, sizeof(v));
  SharedByte* b = shared_at(t, at, sizeof(v), where);
  for (u32 k = 0; k < sizeof(v); ++k, ++b) {
    if (b->written_in == phase && b->writer != t.tid) race(t, where, "both write", b->writer);
    if (b->read_in == phase && (b->many_readers || b->reader != t.tid)) race(t, where, "write and read", b->reader);
    b->written = true;
    b->writer = t.tid;
    b->written_in = phase;
    b->value = reinterpret_cast<const u8*>(v)[k];
  }
}

// ---- Instructions that C++ lacks ----

template <class U>
U shl(U a, u32 n) {
  return n >= 8 * sizeof(U) ? U(0) : U(a << n);
}
template <class T>
T shr(T a, u32 n) {
  return n < 8 * sizeof(T) ? T(a >> n) : T(a < 0 ? -1 : 0);
}
inline u32 funnel_shift_l(u32 low, u32 high, u32 n) { return u32(shl(u64(high) << 32 | low, n) >> 32); }
inline u32 funnel_shift_r(u32 low, u32 high, u32 n) { return u32((u64(high) << 32 | low) >> n); }
inline u32 prmt(u32 a, u32 b, u32 selectors) {
  const u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 selector = selectors >> 4 * k & 15;
    u32 byte = u32(bytes >> 8 * (selector & 7)) & 255;
    if (selector & 8) byte = byte & 128 ? 255 : 0;  // its sign
    result |= byte << 8 * k;
  }
  return result;
}
inline u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 k = 0; k < 8; ++k)
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}
template <class T>
T bfe(T a, u32 at, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 kBits = 8 * sizeof(T);
  at &= 255, length &= 255;
  const u32 sign_at = std::min(at + length - 1, kBits - 1);
  const bool sign = std::is_signed_v<T> && length != 0 && (U(a) >> sign_at & 1);
  U result = 0;
  for (u32 k = 0; k < kBits; ++k) {
    const bool bit = k < length && at + k < kBits ? U(a) >> (at + k) & 1 : sign;
    result |= U(bit) << k;
  }
  return T(result);
}
template <class U>
U bfi(U a, U b, u32 at, u32 length) {
  at &= 255, length &= 255;
  for (u32 k = 0; k < length && at + k < 8 * sizeof(U); ++k)
    b = U((b & ~(U(1) << (at + k))) | ((a >> k & 1) << (at + k)));
  return b;
}
template <class T>
T mul_hi(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return T((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
}
template <class T>
T nonzero(T divisor) {
  if (divisor == 0) fail("divides by zero");
  return divisor;
}
inline u32 to_float_rounded_up(u32 v) {
  const float f = float(v);
  return std::bit_cast<u32>(double(f) < double(v) ? std::nextafter(f, INFINITY) : f);
}
inline u32 reciprocal(u32 f) { return std::bit_cast<u32>(1 / std::bit_cast<float>(f)); }
inline u32 to_integer(u32 v) {
  const float f = std::bit_cast<float>(v);
  return f >= 0x1p32f ? ~0u : f > 0 ? u32(f) : 0;
}

// ---- Thread blocks ----

inline std::vector<Thread> threads;  // of the block that runs
inline ucontext_t scheduler;
inline std::vector<ucontext_t> fibers;
inline std::vector<std::vector<char>> stacks;
enum : int { kRuns = 0, kEnded = -1 };
inline std::vector<int> state;  // or at which barrier a thread waits
inline u32 current = 0;

inline void barrier(const Thread&, int where) {
  state[current] = where;
  swapcontext(&fibers[current], &scheduler);
}
inline void fiber_main() {
  running->run(threads[current]);
  state[current] = kEnded;
  swapcontext(&fibers[current], &scheduler);
}

// The threads take turns in this order, at each barrier again.
inline void run_threads(const std::vector<u32>& order) {
  ++phase;
  if (!running->has_barriers) {
    for (const u32 i : order) running->run(threads[i]);
    return;
  }
  constexpr std::size_t kStackBytes = 64 << 10;
  while (stacks.size() < threads.size()) stacks.emplace_back(kStackBytes);
  fibers.assign(threads.size(), {});
  state.assign(threads.size(), kRuns);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    getcontext(&fibers[i]);
    fibers[i].uc_stack.ss_sp = stacks[i].data();
    fibers[i].uc_stack.ss_size = kStackBytes;
    makecontext(&fibers[i], fiber_main, 0);
  }
  while (state[0] != kEnded) {
    for (const u32 i : order) {
      current = i;
      swapcontext(&scheduler, &fibers[i]);
    }
    if (std::any_of(state.begin(), state.end(), [](int s) { return s != state[0]; }))
      fail("the threads of a block wait at different barriers");
    ++phase;
  }
}

// ---- Warps ----

constexpr u32 kWarpThreads = 32;
constexpr u16 kEnd = 0xffff;

// What is left of a thread's path.
struct Lane {
  const u16 *at, *end;
  u16 next() const { return at == end ? kEnd : *at; }
};

// Adds how often a warp runs each basic block. Its threads run together as long as they go the same way. Where they go
// different ways, these are run one after another, up to the block where all of them meet again.
inline void add_warp_visits(std::vector<Lane*> lanes, u16 until, std::vector<u64>& visits) {
  for (u16 block; (block = lanes[0]->next()) != until;) {
    ++visits[block];
    for (Lane* lane : lanes) ++lane->at;
    const auto goes_along = [&](const Lane* lane) { return lane->next() == lanes[0]->next(); };
    if (std::all_of(lanes.begin(), lanes.end(), goes_along)) continue;
    std::map<u16, std::vector<Lane*>> ways;
    for (Lane* lane : lanes) ways[lane->next()].push_back(lane);
    const u16 meeting = running->meeting[block] < running->blocks() ? running->meeting[block] : kEnd;
    for (auto& [first, way] : ways) add_warp_visits(way, meeting, visits);
  }
}

// ---- Launches ----

struct Launch {
  const Kernel* kernel;
  const void* parameters;
  u32 blocks;
  std::size_t shared_bytes;  // dynamic
};

inline std::function<void()> before_block = [] {};  // once `threads` are those of a block

// The blocks and threads run in the orders given.
inline void run(const Launch& launch, const std::vector<u32>& block_order, const std::vector<u32>& thread_order,
                std::vector<u64>* warp_visits = nullptr) {
  running = launch.kernel;
  const auto* bytes = static_cast<const u8*>(launch.parameters);
  parameters.assign(bytes, bytes + running->parameter_bytes);
  static_shared_bytes = (running->shared_bytes + 15) / 16 * 16;
  visits_left = max_visits;
  std::vector<std::vector<u16>> paths(warp_visits ? running->threads : 0);
  for (const u32 block : block_order) {
    shared.assign(static_shared_bytes + launch.shared_bytes, {});
    threads.assign(running->threads, {});
    for (u32 i = 0; i < running->threads; ++i) threads[i] = {i, block, running->threads, launch.blocks};
    for (std::size_t i = 0; i < paths.size(); ++i) {
      paths[i].clear();
      threads[i].path = &paths[i];
    }
    before_block();
    run_threads(thread_order);
    for (std::size_t first = 0; first < paths.size(); first += kWarpThreads) {
      std::vector<Lane> lanes;
      std::vector<Lane*> warp;
      for (std::size_t i = first; i < std::min(first + kWarpThreads, paths.size()); ++i)
        lanes.push_back({paths[i].data(), paths[i].data() + paths[i].size()});
      for (Lane& lane : lanes) warp.push_back(&lane);
      add_warp_visits(warp, kEnd, *warp_visits);
    }
  }
  running = nullptr;
}

}  // namespace cuda_compiled
