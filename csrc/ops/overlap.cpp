#include "overlap.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "../kernels/small_vector.h"

namespace torch_dml_ops {
namespace {

// Every question here is reduced to one about integers x[k], 0 <= x[k] <= limit[k]: which sums of weight[k] · x[k] can
// they make?
struct Term {
  int64_t weight;  // positive
  int64_t limit;   // positive
};
using Terms = std::vector<Term>;

// Usual strides decide in a few steps; only contrived ones reach the limit.
constexpr int kMostSteps = 1'000'000;

// Sorts the terms by weight, the largest first, and merges two of them where one term makes the same sums: if the
// larger weight is m times the smaller one and the limit of the smaller is at least m - 1, the two make every multiple
// of the smaller weight up to their largest sum.
void merge(Terms& terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.weight > b.weight; });
  for (std::size_t k = terms.size(); k-- > 1;) {
    const Term small = terms[k], large = terms[k - 1];
    const int64_t m = large.weight / small.weight;
    if (large.weight % small.weight != 0 || small.limit < m - 1) continue;
    terms[k - 1] = {small.weight, small.limit + m * large.limit};
    terms.erase(terms.begin() + std::ptrdiff_t(k));
  }
}

__int128 largest_sum(const Terms& terms) {
  __int128 sum = 0;
  for (const Term& t : terms) sum += __int128(t.weight) * t.limit;
  return sum;
}

// Decides whether terms can make a given sum.
class Equation {
 public:
  explicit Equation(Terms terms) : terms_(std::move(terms)) {
    merge(terms_);
    reach_.resize(terms_.size() + 1);
    divisor_.resize(terms_.size() + 1);
    for (std::size_t k = terms_.size(); k-- > 0;) {
      reach_[k] = reach_[k + 1] + __int128(terms_[k].weight) * terms_[k].limit;
      divisor_[k] = std::gcd(divisor_[k + 1], terms_[k].weight);
    }
  }

  // Adds its steps to `steps`, so that one limit holds for several equations.
  Overlap solvable(__int128 target, int& steps) {
    const bool found = search(0, target, steps);
    return found ? Overlap::kSome : steps > kMostSteps ? Overlap::kTooComplicated : Overlap::kNone;
  }

 private:
  bool search(std::size_t k, __int128 target, int& steps) {
    if (target == 0) return true;
    if (++steps > kMostSteps || target < 0 || target > reach_[k] || target % divisor_[k] != 0) return false;
    const Term& term = terms_[k];
    __int128 x = std::min<__int128>(target / term.weight, term.limit);
    for (; x >= 0 && target - x * term.weight <= reach_[k + 1]; --x)
      if (search(k + 1, target - x * term.weight, steps)) return true;
    return false;
  }

  Terms terms_;
  std::vector<__int128> reach_;   // the largest sum that the terms from k on can make
  std::vector<int64_t> divisor_;  // the greatest common divisor of their weights, which divides every sum of them
};

bool empty(const View& v) { return std::find(v.sizes.begin(), v.sizes.end(), 0) != v.sizes.end(); }

// One past the last byte.
__int128 end_of(const View& v) {
  __int128 end = __int128(v.address) + v.item_size;
  for (std::size_t k = 0; k < v.sizes.size(); ++k) end += __int128(v.sizes[k] - 1) * v.strides[k] * v.item_size;
  return end;
}

// The bytes of a view that is not empty: begin plus every sum of the terms.
struct Bytes {
  int64_t begin;
  Terms terms;

  explicit Bytes(const View& v) : begin(v.address) {
    if (v.item_size > 1) terms.push_back({1, v.item_size - 1});
    for (std::size_t k = 0; k < v.sizes.size(); ++k)
      if (v.sizes[k] > 1 && v.strides[k] != 0) terms.push_back({v.strides[k] * v.item_size, v.sizes[k] - 1});
    merge(terms);
  }

  __int128 end() const { return begin + largest_sum(terms) + 1; }
};

Overlap overlap(const Bytes& a, const Bytes& b) {
  // They share a byte if a.begin + sum(a) = b.begin + sum(b) has a solution. With limit - x in place of each x of b,
  // sum(b) becomes largest_sum(b) - sum(b), and all terms are on one side: sum(a) + sum(b) is the target below.
  Terms terms = a.terms;
  terms.insert(terms.end(), b.terms.begin(), b.terms.end());
  int steps = 0;
  return Equation(std::move(terms)).solvable(__int128(b.begin) - a.begin + largest_sum(b.terms), steps);
}

// Looks for two views that share memory without comparing every pair.
//
// Addresses that differ modulo some stride differ. So the views are projected: their addresses are taken modulo a
// stride that many of them have (or modulo several strides in turn, the largest first), and each view is then an
// interval on a circle. Modulo the row pitch of a matrix, for example, a column is one short interval, and sorting the
// intervals separates the columns. Views whose intervals overlap, directly or through others, form a group; views of
// different groups share no memory. Each group is divided again by other strides until it has one view, or until no
// projection divides it further: then every pair of the group is compared exactly.
class PairSearch {
 public:
  // Searches views[k] for every k in `numbers`. None of them is empty.
  PairSearch(std::span<const View> views, std::span<const std::size_t> numbers) : numbers_(numbers) {
    bytes_.reserve(numbers.size());
    for (const std::size_t k : numbers) bytes_.emplace_back(views[k]);
  }

  Pair run() {
    Group all(bytes_.size());
    std::iota(all.begin(), all.end(), 0);
    return search(all, 0);
  }

 private:
  using Group = std::vector<std::size_t>;   // indices of bytes_
  using Projection = std::vector<int64_t>;  // strides; addresses are taken modulo each of them in turn

  struct Interval {
    __int128 begin, end;
    std::size_t view;
  };

  // Comparing every pair of so few views is faster than dividing them.
  static constexpr std::size_t kFew = 4;
  // How deep groups are divided. Tiles of a matrix need two levels; each costs a few sorts of all views.
  static constexpr int kMostLevels = 40;
  // Views of one tensor have as many strides in common as it has dimensions.
  static constexpr std::size_t kMostStrides = 8;

  Pair search(const Group& group, int level) const {
    if (group.size() <= kFew || level == kMostLevels) return compare_each_pair(group);
    std::vector<Group> parts = divide(group, {});
    if (parts.size() == 1) {
      for (const Projection& projection : projections(group)) {
        parts = divide(group, projection);
        if (parts.size() > 1) break;
      }
    }
    if (parts.size() == 1) return compare_each_pair(group);
    for (const Group& part : parts)
      if (const Pair found = search(part, level + 1); found.overlap != Overlap::kNone) return found;
    return {Overlap::kNone, 0, 0};
  }

  // The projections to try: modulo each of the most common strides, then the same after one larger stride, after two
  // and so on.
  std::vector<Projection> projections(const Group& group) const {
    std::vector<int64_t> strides;
    for (const std::size_t v : group)
      for (const Term& t : bytes_[v].terms)
        if (t.weight > 1) strides.push_back(t.weight);
    std::sort(strides.begin(), strides.end(), std::greater<>());
    std::vector<std::pair<std::size_t, int64_t>> common;  // how often a stride occurs; the stride
    for (const int64_t s : strides) {
      if (common.empty() || common.back().second != s) common.push_back({0, s});
      ++common.back().first;
    }
    std::stable_sort(common.begin(), common.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    common.resize(std::min(common.size(), kMostStrides));
    std::sort(common.begin(), common.end(), [](const auto& a, const auto& b) { return a.second > b.second; });

    std::vector<Projection> result;
    for (std::size_t taken = 0; taken < common.size(); ++taken) {
      for (std::size_t last = taken; last < common.size(); ++last) {
        result.emplace_back();
        for (std::size_t k = 0; k < taken; ++k) result.back().push_back(common[k].second);
        result.back().push_back(common[last].second);
      }
    }
    return result;
  }

  // Divides a group by a projection into groups of overlapping intervals; into one if the projection does not apply.
  std::vector<Group> divide(const Group& group, const Projection& projection) const {
    int64_t origin = INT64_MAX;
    for (const std::size_t v : group) origin = std::min(origin, bytes_[v].begin);
    std::vector<Interval> intervals;
    intervals.reserve(group.size());
    for (const std::size_t v : group) {
      const std::optional<Interval> interval = project(v, origin, projection);
      if (!interval) return {group};
      intervals.push_back(*interval);
    }
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::vector<Group> parts;
    std::vector<__int128> begins;
    __int128 end = 0;
    for (const Interval& i : intervals) {
      if (parts.empty() || i.begin >= end) {
        parts.emplace_back();
        begins.push_back(i.begin);
      }
      parts.back().push_back(i.view);
      end = std::max(end, i.end);
    }
    if (projection.empty()) return parts;
    // The intervals are on a circle: where the last part reaches past the circle's end, it overlaps the first parts.
    std::size_t met = 0;
    for (; met + 1 < parts.size() && begins[met] < end - projection.back(); ++met)
      parts.back().insert(parts.back().end(), parts[met].begin(), parts[met].end());
    parts.erase(parts.begin(), parts.begin() + std::ptrdiff_t(met));
    return parts;
  }

  // An interval that holds all bytes of the view, on a circle as long as the last stride of the projection; nothing if
  // the view crosses the end of a circle of one of the strides before it.
  std::optional<Interval> project(std::size_t view, int64_t origin, const Projection& projection) const {
    const Bytes& bytes = bytes_[view];
    __int128 begin = __int128(bytes.begin) - origin;
    __int128 length = bytes.end() - bytes.begin;
    Terms terms = bytes.terms;
    for (std::size_t k = 0; k < projection.size(); ++k) {
      const int64_t stride = projection[k];
      std::erase_if(terms, [&](const Term& t) { return t.weight % stride == 0; });
      length = largest_sum(terms) + 1;
      begin %= stride;
      if (k + 1 < projection.size() && begin + length > stride) return {};
    }
    return Interval{begin, begin + length, view};
  }

  Pair compare_each_pair(Group group) const {
    std::sort(group.begin(), group.end(),
              [&](std::size_t a, std::size_t b) { return bytes_[a].begin < bytes_[b].begin; });
    Group open;  // views that end after the current one begins
    for (const std::size_t v : group) {
      std::erase_if(open, [&](std::size_t w) { return bytes_[w].end() <= bytes_[v].begin; });
      for (const std::size_t w : open)
        if (const Overlap found = overlap(bytes_[v], bytes_[w]); found != Overlap::kNone)
          return {found, std::max(numbers_[v], numbers_[w]), std::min(numbers_[v], numbers_[w])};
      open.push_back(v);
    }
    return {Overlap::kNone, 0, 0};
  }

  std::vector<Bytes> bytes_;
  std::span<const std::size_t> numbers_;  // for each of bytes_, the index of its view
};

}  // namespace

Overlap overlaps_itself(const View& view) {
  if (empty(view)) return Overlap::kNone;
  DimVector<Term> dims;  // asked of every `out`: without an allocation
  for (std::size_t k = 0; k < view.sizes.size(); ++k) {
    if (view.sizes[k] == 1) continue;
    if (view.strides[k] == 0) return Overlap::kSome;
    dims.push_back({view.strides[k], view.sizes[k] - 1});
  }
  std::sort(dims.begin(), dims.end(), [](const Term& a, const Term& b) { return a.weight < b.weight; });
  __int128 reach = 0;
  bool nested = true;  // whether every stride is larger than the largest offset that the smaller ones make together
  for (const Term& d : dims) {
    nested &= d.weight > reach;
    reach += __int128(d.weight) * d.limit;
  }
  if (nested) return Overlap::kNone;
  // Two indices that differ by d name the same memory if sum(weight · d) = 0. Let k be the first dimension in which
  // they differ; d[k] is positive for one order of the two. The Equation takes no negative numbers: its unknowns are
  // d[k] - 1, from 0 to limit - 1, and for each later dimension d + limit, from 0 to 2 · limit.
  int steps = 0;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    Terms terms;
    if (dims[k].limit > 1) terms.push_back({dims[k].weight, dims[k].limit - 1});
    __int128 target = -__int128(dims[k].weight);
    for (std::size_t j = k + 1; j < dims.size(); ++j) {
      terms.push_back({dims[j].weight, 2 * dims[j].limit});
      target += __int128(dims[j].weight) * dims[j].limit;
    }
    if (const Overlap found = Equation(std::move(terms)).solvable(target, steps); found != Overlap::kNone) return found;
  }
  return Overlap::kNone;
}

Overlap overlap(const View& a, const View& b) {
  if (empty(a) || empty(b) || end_of(a) <= b.address || end_of(b) <= a.address) return Overlap::kNone;
  return overlap(Bytes(a), Bytes(b));
}

Pair find_overlap(std::span<const View> views) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < views.size(); ++k)
    if (!empty(views[k])) order.push_back(k);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return views[a].address < views[b].address; });
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    // As many views as overlap, directly or through others, when each is taken as one range of addresses.
    __int128 reach = end_of(views[order[begin]]);
    for (end = begin + 1; end < order.size() && views[order[end]].address < reach; ++end)
      reach = std::max(reach, end_of(views[order[end]]));
    if (end - begin == 1) continue;
    const std::span<const std::size_t> numbers = std::span(order).subspan(begin, end - begin);
    if (const Pair found = PairSearch(views, numbers).run(); found.overlap != Overlap::kNone) return found;
  }
  return {Overlap::kNone, 0, 0};
}

}  // namespace torch_dml_ops
