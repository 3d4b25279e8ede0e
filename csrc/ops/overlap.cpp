#include "overlap.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

namespace torch_dml_ops {
namespace {

// Every question here comes down to whole numbers x[k] in [0, limit[k]] and their sum(weight[k] · x[k]).
struct Term {
  int64_t weight;  // positive
  int64_t limit;   // positive
};
using Terms = std::vector<Term>;

// Usual strides decide in a few steps; only contrived ones reach the limit.
constexpr int kMostSteps = 1'000'000;

// Orders the terms by weight, the largest first, and makes one of two where the sums stay the same: where the larger
// weight is m times the smaller, and the smaller reaches at least to m - 1, they make every multiple of the smaller
// weight up to the sum of both.
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

// Whether terms can make a sum.
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

  // Counts its steps on from `steps`.
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
  std::vector<int64_t> divisor_;  // what divides every sum that they can make
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
  // a.begin + a sum of a's terms is b.begin + one of b's, of which each x is its limit less a number from 0 to that.
  Terms terms = a.terms;
  terms.insert(terms.end(), b.terms.begin(), b.terms.end());
  int steps = 0;
  return Equation(std::move(terms)).solvable(__int128(b.begin) - a.begin + largest_sum(b.terms), steps);
}

// Looks for two views that share memory without comparing each with each.
//
// What is disjoint after a projection is disjoint. A projection takes addresses modulo a stride that views have in
// common, after larger ones where it takes several: modulo the pitch of a matrix a column of it is one short interval,
// and the columns are told apart by sorting these. Where the intervals of some views leave a gap to those of all
// others, they are a group of their own. Groups are divided again, until a view is alone in its group or no projection
// divides it: then each pair of the group is compared exactly.
class PairSearch {
 public:
  // Among those of the views that `numbers` has; none is empty.
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
  using Group = std::vector<std::size_t>;  // places in bytes_
  using Projection = std::vector<int64_t>;

  struct Interval {
    __int128 begin, end;
    std::size_t view;
  };

  // To divide fewer views would take longer than to compare them.
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

  // Modulo each common stride, and then after larger ones.
  std::vector<Projection> projections(const Group& group) const {
    std::vector<int64_t> strides;
    for (const std::size_t v : group)
      for (const Term& t : bytes_[v].terms)
        if (t.weight > 1) strides.push_back(t.weight);
    std::sort(strides.begin(), strides.end(), std::greater<>());
    std::vector<std::pair<std::size_t, int64_t>> common;  // how many views have it; the stride
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

  // The views whose intervals hang together, group by group; one group where the projection tells nothing.
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
    // On the circle, what reaches beyond its end meets the first ones.
    std::size_t met = 0;
    for (; met + 1 < parts.size() && begins[met] < end - projection.back(); ++met)
      parts.back().insert(parts.back().end(), parts[met].begin(), parts[met].end());
    parts.erase(parts.begin(), parts.begin() + std::ptrdiff_t(met));
    return parts;
  }

  // An interval that holds all bytes of the view, on a circle as long as the last stride of the projection; nothing
  // where one of the strides before it cuts the view in two.
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
    Group open;  // those that reach beyond where the present one begins
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
  std::span<const std::size_t> numbers_;  // whose bytes they are
};

}  // namespace

Overlap overlaps_itself(const View& view) {
  if (empty(view)) return Overlap::kNone;
  Terms dims;
  for (std::size_t k = 0; k < view.sizes.size(); ++k) {
    if (view.sizes[k] == 1) continue;
    if (view.strides[k] == 0) return Overlap::kSome;
    dims.push_back({view.strides[k], view.sizes[k] - 1});
  }
  std::sort(dims.begin(), dims.end(), [](const Term& a, const Term& b) { return a.weight < b.weight; });
  __int128 reach = 0;
  bool nested = true;  // every stride steps over all that the smaller ones reach
  for (const Term& d : dims) {
    nested &= d.weight > reach;
    reach += __int128(d.weight) * d.limit;
  }
  if (nested) return Overlap::kNone;
  // Two indices differ by d with sum(weight · d) = 0. Let dimension k be the first in which they differ, by at least 1;
  // the later ones differ by anything from -limit to limit, which is a number from 0 to 2 · limit less limit.
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
    // From here on, as many as reach into one another's range of addresses.
    __int128 reach = end_of(views[order[begin]]);
    for (end = begin + 1; end < order.size() && views[order[end]].address < reach; ++end)
      reach = std::max(reach, end_of(views[order[end]]));
    if (end - begin == 1) continue;
    const std::span<const std::size_t> entangled = std::span(order).subspan(begin, end - begin);
    if (const Pair found = PairSearch(views, entangled).run(); found.overlap != Overlap::kNone) return found;
  }
  return {Overlap::kNone, 0, 0};
}

}  // namespace torch_dml_ops
