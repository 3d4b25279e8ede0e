#include "overlap.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace torch_dml_ops {
namespace {

// Both questions come down to whole numbers x[k] in [0, limit[k]] with sum(weight[k] · x[k]) = target.
struct Term {
  int64_t weight;  // positive
  int64_t limit;
};

// Strides of real tensors nest, and then a handful of steps decide. A tensor that needs more was made for it.
constexpr int kMostSteps = 1'000'000;

class Equation {
 public:
  explicit Equation(std::vector<Term> terms) : terms_(std::move(terms)) {
    std::erase_if(terms_, [](const Term& t) { return t.weight == 0 || t.limit == 0; });
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.weight > b.weight; });
    merge();
    reach_.resize(terms_.size() + 1);
    divisor_.resize(terms_.size() + 1);
    for (std::size_t k = terms_.size(); k-- > 0;) {
      reach_[k] = reach_[k + 1] + __int128(terms_[k].weight) * terms_[k].limit;
      divisor_[k] = std::gcd(divisor_[k + 1], terms_[k].weight);
    }
  }

  Overlap solvable(__int128 target) {
    const bool found = search(0, target);
    return found ? Overlap::kSome : steps_ > kMostSteps ? Overlap::kTooComplicated : Overlap::kNone;
  }

 private:
  // Two terms of which the larger weight is m times the smaller, and the smaller reaches at least to m - 1, make every
  // multiple of the smaller weight up to the sum of both: one term.
  void merge() {
    for (std::size_t k = terms_.size(); k-- > 1;) {
      const Term small = terms_[k], large = terms_[k - 1];
      const int64_t m = large.weight / small.weight;
      if (large.weight % small.weight != 0 || small.limit < m - 1) continue;
      terms_[k - 1] = {small.weight, small.limit + m * large.limit};
      terms_.erase(terms_.begin() + std::ptrdiff_t(k));
    }
  }

  bool search(std::size_t k, __int128 target) {
    if (target == 0) return true;
    if (++steps_ > kMostSteps || target < 0 || target > reach_[k] || target % divisor_[k] != 0) return false;
    const Term& term = terms_[k];
    __int128 x = std::min<__int128>(target / term.weight, term.limit);
    for (; x >= 0 && target - x * term.weight <= reach_[k + 1]; --x)
      if (search(k + 1, target - x * term.weight)) return true;
    return false;
  }

  std::vector<Term> terms_;
  std::vector<__int128> reach_;   // the largest sum that the terms from k on can make
  std::vector<int64_t> divisor_;  // what divides every sum that they can make
  int steps_ = 0;
};

bool empty(const View& v) { return std::find(v.sizes.begin(), v.sizes.end(), 0) != v.sizes.end(); }

// One past the last byte.
__int128 end_of(const View& v) {
  __int128 end = __int128(v.address) + v.item_size;
  for (std::size_t k = 0; k < v.sizes.size(); ++k) end += __int128(v.sizes[k] - 1) * v.strides[k] * v.item_size;
  return end;
}

}  // namespace

Overlap overlaps_itself(const View& view) {
  if (empty(view)) return Overlap::kNone;
  std::vector<Term> dims;
  for (std::size_t k = 0; k < view.sizes.size(); ++k)
    if (view.sizes[k] > 1) dims.push_back({view.strides[k], view.sizes[k] - 1});
  std::sort(dims.begin(), dims.end(), [](const Term& a, const Term& b) { return a.weight < b.weight; });
  __int128 reach = 0;
  bool nested = true;  // every stride steps over all that the smaller ones reach
  for (const Term& d : dims) {
    if (d.weight == 0) return Overlap::kSome;
    nested &= d.weight > reach;
    reach += __int128(d.weight) * d.limit;
  }
  if (nested) return Overlap::kNone;
  // Two indices differ by d with sum(weight · d) = 0. Let dimension k be the first in which they differ, by at least 1;
  // the later ones differ by anything from -limit to limit, which is a number from 0 to 2 · limit less limit.
  for (std::size_t k = 0; k < dims.size(); ++k) {
    std::vector<Term> terms{{dims[k].weight, dims[k].limit - 1}};
    __int128 target = -__int128(dims[k].weight);
    for (std::size_t j = k + 1; j < dims.size(); ++j) {
      terms.push_back({dims[j].weight, 2 * dims[j].limit});
      target += __int128(dims[j].weight) * dims[j].limit;
    }
    if (const Overlap found = Equation(terms).solvable(target); found != Overlap::kNone) return found;
  }
  return Overlap::kNone;
}

Overlap overlap(const View& a, const View& b) {
  if (empty(a) || empty(b) || end_of(a) <= b.address || end_of(b) <= a.address) return Overlap::kNone;
  // Byte a.address + sum(i · stride) + u is byte b.address + sum(j · stride) + v; each j and v is its limit less a
  // number from 0 to that limit.
  std::vector<Term> terms{{1, a.item_size - 1}, {1, b.item_size - 1}};
  __int128 target = __int128(b.address) - a.address + b.item_size - 1;
  for (std::size_t k = 0; k < a.sizes.size(); ++k) terms.push_back({a.strides[k] * a.item_size, a.sizes[k] - 1});
  for (std::size_t k = 0; k < b.sizes.size(); ++k) {
    terms.push_back({b.strides[k] * b.item_size, b.sizes[k] - 1});
    target += __int128(b.strides[k]) * b.item_size * (b.sizes[k] - 1);
  }
  return Equation(terms).solvable(target);
}

Pair find_overlap(std::span<const View> views) {
  std::vector<std::size_t> order(views.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return views[a].address < views[b].address; });
  std::vector<std::size_t> open;  // those that reach beyond where the present one begins
  for (const std::size_t k : order) {
    std::erase_if(open, [&](std::size_t j) { return empty(views[j]) || end_of(views[j]) <= views[k].address; });
    for (const std::size_t j : open)
      if (const Overlap found = overlap(views[k], views[j]); found != Overlap::kNone)
        return {found, std::max(k, j), std::min(k, j)};
    open.push_back(k);
  }
  return {Overlap::kNone, 0, 0};
}

}  // namespace torch_dml_ops
