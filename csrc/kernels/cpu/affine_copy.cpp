#include "../affine_copy.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>
#include <vector>

#include "engine.h"
#include "writer.h"

namespace torch_dml_ops::cpu {
namespace {

// Whether the copies join single items, few enough of them for loops that know how many.
bool take_turns(std::span<const AffineCopy> copies, const Writer& writer) {
  const auto count = int64_t(copies.size());
  if (count < 2 || count > kMostInterleaved) return false;
  for (int64_t k = 0; k < count; ++k) {
    const AffineCopy& copy = copies[std::size_t(k)];
    const CopyDim& d = copy.dims.front();
    if (copy.dims.size() != 1 || !d.reads_all() || d.src_stride != 1 || d.dst_stride != count ||
        copy.dst != copies.front().dst + writer.bytes(k))
      return false;
  }
  return true;
}

// Copies that are worked on together, block by block [split last axis in 16, 4 MB]: the pieces of a split or join read,
// or write, neighbouring memory, and a block of all of them stays in the cache. A block is one index of each dimension
// before `level`, a range of indices of that dimension, and all of the later ones.
struct Group {
  std::span<const AffineCopy> copies;
  std::size_t level;
  int64_t block;          // indices of the dimension at `level`
  int64_t blocks;         // of the whole group
  std::vector<Run> runs;  // where the copies are runs of the same rows, along `level`
  Runs moves;             // none if they are not, or if it does not pay
  bool interleaves;       // whether single items of the copies take turns in the destination

  Group(std::span<const AffineCopy> of, const Writer& writer)
      : copies(of), level(0), blocks(1), moves{}, interleaves(take_turns(of, writer)) {
    const Dims dims = copies.front().dims;
    const auto below = [&] {  // bytes in one index of the dimension at `level`
      int64_t items = 0;
      for (const AffineCopy& copy : copies) items += numel_of(Dims(copy.dims).subspan(level + 1));
      return writer.bytes(items);
    };
    const int64_t most = writer.streams() ? limits.chunk : limits.block;
    while (copies.size() == 1 && level + 1 < dims.size() && below() > most) ++level;
    if (copies.size() == 1 && dims.size() >= 2) {
      const bool last = level + 1 == dims.size();
      if (is_transposition(dims) ||
          (last && rows_of_runs(dims.last(2)) && writer.bytes(dims.back().size) <= limits.block))
        level = dims.size() - 2;
    }
    block = limits.block / below();
    if (is_transposition(dims)) block = std::max(block, writer.items(kCacheLineBytes));
    block = std::clamp<int64_t>(block, 1, dims[level].size);
    for (std::size_t k = 0; k < level; ++k) blocks *= dims[k].size;
    blocks *= blocks_along_level();
    if (copies.size() > 1 && std::ranges::all_of(copies, [](const AffineCopy& copy) {
          return copy.dims.size() == 2 && rows_of_runs(copy.dims) && copy.dims.back().src_stride == 1;
        })) {
      for (const AffineCopy& copy : copies) runs.push_back(writer.run_of(copy.dims, copy.dst, copy.src, 0, 1));
      moves = writer.plan(runs, dims.front().size, 1);
    }
  }

  int64_t blocks_along_level() const { return (copies.front().dims[level].size + block - 1) / block; }
};

// Whether pieces can be a group: they lie among one another, their first dimensions go together, and no more than a
// block lies in one index of them.
bool belong_together(std::span<const AffineCopy> copies, int64_t item_size) {
  int64_t items = 0;
  for (const AffineCopy& copy : copies) {
    const CopyDim& first = copy.dims.front();
    if (first.size != copies.front().dims.front().size || (first.dst_stride == 1 && first.src_stride == 1))
      return false;
    items += numel_of(Dims(copy.dims).subspan(1));
  }
  return copies.size() > 1 && items * item_size <= limits.block;
}

class Work {
 public:
  Work(std::span<const AffineCopy> copies, int64_t item_size) : writer_(item_size, numel_of_all(copies)) {
    if (belong_together(copies, item_size)) {
      groups_.emplace_back(copies, writer_);
    } else {
      for (std::size_t k = 0; k < copies.size(); ++k) groups_.emplace_back(copies.subspan(k, 1), writer_);
    }
    for (const Group& group : groups_) ends_.push_back(blocks() + group.blocks);
  }

  int64_t blocks() const { return ends_.empty() ? 0 : ends_.back(); }

  void execute(int64_t begin, int64_t end) const {
    const auto scratch = writer_.new_scratch();
    auto g = std::size_t(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (; begin < end; ++g) {
      const int64_t start = g == 0 ? 0 : ends_[g - 1], stop = std::min(end, ends_[g]);
      for (; begin < stop; ++begin) execute_block(groups_[g], begin - start, scratch.get());
    }
    writer_.finish();
  }

 private:
  void execute_block(const Group& group, int64_t at, Scratch* scratch) const {
    const int64_t along = group.blocks_along_level(), begin = at % along * group.block;
    const int64_t end = std::min(begin + group.block, group.copies.front().dims[group.level].size);
    at /= along;
    if (group.moves.count > 0) {
      Runs moves = group.moves;
      moves.begin = begin;
      moves.end = end;
      writer_.move(moves, 1);
      return;
    }
    if (group.interleaves) {
      std::array<const char*, kMostInterleaved> sources;
      for (std::size_t k = 0; k < group.copies.size(); ++k) sources[k] = group.copies[k].src + writer_.bytes(begin);
      char* dst = group.copies.front().dst + writer_.bytes(begin * int64_t(group.copies.size()));
      return writer_.interleave(dst, std::span(sources).first(group.copies.size()), end - begin, scratch);
    }
    if (writer_.streams() && group.copies.size() > 1 && make_together(group, begin, end, scratch)) return;
    for (const AffineCopy& copy : group.copies) {
      char* dst = copy.dst;
      const char* src = copy.src;
      int64_t rest = at;
      for (std::size_t k = group.level; k-- > 0;) {
        const CopyDim& d = copy.dims[k];
        const int64_t index = rest % d.size;
        rest /= d.size;
        dst += writer_.bytes(index * d.dst_stride);
        src = writer_.place(d, src, index);
      }
      writer_.write_block(Dims(copy.dims).subspan(group.level), dst, src, begin, end, scratch);
    }
  }

  // A block of pieces that fill one range of memory between them, as a join's do. [join ones to a last axis of 7,
  // 128 MB]
  bool make_together(const Group& group, int64_t begin, int64_t end, Scratch* free) const {
    const int64_t stride = group.copies.front().dims.front().dst_stride;
    char* first = group.copies.front().dst;
    for (const AffineCopy& copy : group.copies) first = std::min(first, copy.dst);
    int64_t items = 0;
    for (const AffineCopy& copy : group.copies) {
      const Dims inner = Dims(copy.dims).subspan(1);
      const int64_t n = numel_of(inner);
      items += n;
      // Ranges without gaps, all within the first index's; as they do not overlap, their sum tells whether they fill
      // it.
      if (copy.dims.front().dst_stride != stride || !dense(inner) ||
          copy.dst - first + writer_.bytes(n) > writer_.bytes(stride))
        return false;
    }
    const int64_t bytes = writer_.bytes((end - begin) * stride);
    if (items != stride || bytes > kMostBlockBytes) return false;
    char* block = first + writer_.bytes(begin * stride);
    char* scratch = free->bytes + reinterpret_cast<uintptr_t>(block) % kCacheLineBytes;
    for (const AffineCopy& copy : group.copies)
      writer_.write(copy.dims, scratch + (copy.dst - block), copy.src, begin, end);
    writer_.stream(block, scratch, bytes);
    return true;
  }

  static int64_t numel_of_all(std::span<const AffineCopy> copies) {
    int64_t n = 0;
    for (const AffineCopy& copy : copies) n += copy.numel();
    return n;
  }

  const Writer writer_;
  std::vector<Group> groups_;
  std::vector<int64_t> ends_;  // of each group, in blocks of all groups one after another
};

// Brings the source's unit stride next to the destination's, so that a tile is a transposition of neighbours.
void pair_unit_strides(AffineCopy& copy) {
  std::vector<CopyDim>& dims = copy.dims;
  if (dims.size() < 3 || dims.back().dst_stride != 1) return;
  if (unit_source(dims.back())) return;
  const auto found = std::find_if(dims.begin(), dims.end() - 1, unit_source);
  if (found != dims.end() - 1) std::rotate(found, found + 1, dims.end() - 1);
}

}  // namespace

void execute(AffineCopies plan, ParallelFor parallel_for) {
  align_items(plan);
  for (AffineCopy& copy : plan.copies) {
    reorder_and_coalesce(copy);
    pair_unit_strides(copy);
    if (copy.dims.empty()) copy.dims.push_back(plain_dim(1, 1, 1));
  }
  const Work work(plan.copies, plan.item_size);
  parallel_for(work.blocks(), std::max<int64_t>(limits.grain / limits.block, 1),
               [&](int64_t begin, int64_t end) { work.execute(begin, end); });
}

}  // namespace torch_dml_ops::cpu
