// Random sets of views, under the sanitizers: whether csrc/ops/overlap finds two of them that share memory, or one that
// overlaps itself, compared with the bytes of each, written down one by one.
//
//     overlap_fuzz CASES SEED
//
// Most sets are pieces of one tensor, cut along its dimensions or taken every few items, with padding between rows,
// and therefore disjoint but for what is then changed. Prints how many sets of more than 8 views were disjoint, and how
// many were not.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "../../csrc/ops/overlap.h"
#include "random_numbers.h"

using namespace torch_dml_ops;

namespace {

struct Piece {
  int64_t address = 0, item = 1;
  std::vector<int64_t> sizes, strides;

  View view() const { return {address, item, sizes, strides}; }

  // Calls f with the address of every item.
  template <class F>
  void for_each(F f) const {
    std::vector<int64_t> index(sizes.size());
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
    for (;;) {
      int64_t at = address;
      for (std::size_t k = 0; k < sizes.size(); ++k) at += index[k] * strides[k] * item;
      f(at);
      std::size_t k = sizes.size();
      while (k-- > 0 && ++index[k] == sizes[k]) index[k] = 0;
      if (k == std::size_t(-1)) return;
    }
  }

  std::set<int64_t> bytes() const {
    std::set<int64_t> result;
    for_each([&](int64_t at) {
      for (int64_t b = 0; b < item; ++b) result.insert(at + b);
    });
    return result;
  }
};

// Sizes of 1 to 4 dimensions and strides that hold them, in some order, with padding now and then.
Piece any_whole() {
  Piece whole;
  whole.item = int64_t(1) << any(0, 4);
  whole.address = any(0, 40);
  whole.sizes.resize(std::size_t(any(1, 4)));
  whole.strides.resize(whole.sizes.size());
  for (int64_t& n : whole.sizes) n = chance(0.05) ? any(0, 1) : any(1, 9);
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < whole.sizes.size(); ++k) order.insert(order.begin() + any(0, int64_t(k)), k);
  int64_t stride = chance(0.2) ? any(1, 3) : 1;
  for (const std::size_t k : order) {
    whole.strides[k] = stride;
    stride *= std::max<int64_t>(whole.sizes[k], 1);
    if (chance(0.4)) stride += chance(0.1) ? int64_t(1) << any(31, 40) : any(1, 5);
  }
  return whole;
}

// Cuts the piece along a dimension: into blocks, or into every n-th of its indices.
std::vector<Piece> cut(const Piece& piece) {
  const auto d = std::size_t(any(0, int64_t(piece.sizes.size()) - 1));
  const int64_t size = piece.sizes[d];
  std::vector<Piece> result;
  if (chance(0.4)) {
    const int64_t step = any(1, std::max<int64_t>(size, 1));
    for (int64_t k = 0; k < std::min(step, size); ++k) {
      result.push_back(piece);
      result.back().address += k * piece.strides[d] * piece.item;
      result.back().sizes[d] = (size - k + step - 1) / step;
      result.back().strides[d] *= step;
    }
    return result;
  }
  const int64_t most = chance(0.5) ? 1 : 3;
  for (int64_t begin = 0, n; begin < size; begin += n) {
    n = std::min(any(1, most), size - begin);
    result.push_back(piece);
    result.back().address += begin * piece.strides[d] * piece.item;
    result.back().sizes[d] = n;
  }
  return result;
}

// Writes the same bytes down in another way, or in one that is wrong in what is of no account.
void disguise(Piece& piece) {
  for (std::size_t k = 0; k < piece.sizes.size(); ++k)
    if (piece.sizes[k] == 1) piece.strides[k] = chance(0.5) ? any(0, 100) : int64_t(1) << any(0, 62);
  if (chance(0.2)) {
    const auto at = any(0, int64_t(piece.sizes.size()));
    piece.sizes.insert(piece.sizes.begin() + at, 1);
    piece.strides.insert(piece.strides.begin() + at, any(0, 9));
  }
  if (chance(0.3) && piece.sizes.size() > 1) {
    std::swap(piece.sizes.front(), piece.sizes.back());
    std::swap(piece.strides.front(), piece.strides.back());
  }
  if (chance(0.2) && piece.item > 1) {  // its halves as a dimension
    piece.item /= 2;
    for (int64_t& s : piece.strides)
      if (s <= INT64_MAX / 4) s *= 2;
    piece.sizes.push_back(2);
    piece.strides.push_back(1);
  }
}

std::vector<Piece> any_pieces() {
  std::vector<Piece> pieces{any_whole()};
  if (chance(0.15)) {  // another tensor, at the end of the first, within it or far away
    pieces.push_back(any_whole());
    pieces.back().address += any(0, 2000);
  }
  for (int64_t cuts = any(0, 12); cuts > 0; --cuts) {
    const auto which = std::size_t(any(0, int64_t(pieces.size()) - 1));
    const std::vector<Piece> parts = cut(pieces[which]);
    pieces.erase(pieces.begin() + std::ptrdiff_t(which));
    pieces.insert(pieces.end(), parts.begin(), parts.end());
    if (pieces.empty()) return pieces;
  }
  if (chance(0.4)) {  // every piece cut once more in the same way, as the pieces of a split are
    std::vector<Piece> all;
    const std::mt19937_64 same = random_bits;
    for (const Piece& piece : pieces) {
      random_bits = same;
      const std::vector<Piece> parts = cut(piece);
      all.insert(all.end(), parts.begin(), parts.end());
    }
    pieces = all;
  }
  std::shuffle(pieces.begin(), pieces.end(), random_bits);
  if (pieces.size() > 60) pieces.resize(60);
  if (chance(0.3)) std::erase_if(pieces, [](const Piece&) { return chance(0.3); });
  if (pieces.empty()) return pieces;
  if (chance(0.5)) {  // one of them moved, stretched or made larger
    Piece& changed = pieces[std::size_t(any(0, int64_t(pieces.size()) - 1))];
    const auto d = std::size_t(any(0, int64_t(changed.sizes.size()) - 1));
    const int64_t how = any(0, 3);
    if (how == 0) changed.address += any(-20, 20);
    if (how == 1) changed.strides[d] += any(0, 20);
    if (how == 2) changed.sizes[d] += any(0, 2);
    if (how == 3) changed.strides[d] = any(0, 4);
  }
  for (Piece& piece : pieces) disguise(piece);
  return pieces;
}

bool intersect(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  for (const int64_t byte : a)
    if (b.count(byte)) return true;
  return false;
}

// Whether they share memory by the bytes of each; what was found must be so.
bool shared(const std::vector<Piece>& pieces, bool& right) {
  std::map<int64_t, std::size_t> owner;
  std::vector<std::set<int64_t>> bytes;
  bool expected = false;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    bytes.push_back(pieces[k].bytes());
    for (const int64_t byte : bytes.back()) expected |= owner.emplace(byte, k).first->second != k;
  }
  std::vector<View> views;
  for (const Piece& piece : pieces) views.push_back(piece.view());
  const Pair found = find_overlap(views);
  right = found.overlap == (expected ? Overlap::kSome : Overlap::kNone);
  if (right && expected)
    right = found.first < found.second && found.second < pieces.size() &&
            intersect(bytes[found.first], bytes[found.second]);
  // The same of two alone.
  const auto some = [&] { return std::size_t(any(0, int64_t(pieces.size()) - 1)); };
  for (int k = 0; k < 3 && right && !pieces.empty(); ++k) {
    const std::size_t a = some(), b = some();
    right = overlap(views[a], views[b]) == (intersect(bytes[a], bytes[b]) ? Overlap::kSome : Overlap::kNone);
  }
  return expected;
}

// Whether items of the piece begin at the same place; of whole tensors and of ones with any strides.
bool itself_case() {
  Piece piece = any_whole();
  if (chance(0.5)) {
    piece.item = 1;
    for (int64_t& s : piece.strides) s = any(chance(0.1) ? 0 : 1, 60);
  }
  std::set<int64_t> places;
  bool expected = false;
  piece.for_each([&](int64_t at) { expected |= !places.insert(at).second; });
  return overlaps_itself(piece.view()) == (expected ? Overlap::kSome : Overlap::kNone);
}

void print(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    std::printf("  at %lld, items of %lld:", static_cast<long long>(piece.address), static_cast<long long>(piece.item));
    for (std::size_t k = 0; k < piece.sizes.size(); ++k)
      std::printf(" %lld*%lld", static_cast<long long>(piece.sizes[k]), static_cast<long long>(piece.strides[k]));
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  int with_shared = 0, disjoint = 0;
  for (int k = 0; k < cases; ++k) {
    random_bits.seed(seed * 1'000'003 + std::uint64_t(k));
    const std::vector<Piece> pieces = any_pieces();
    bool right = true;
    const bool expected = shared(pieces, right);
    if (!right || !itself_case()) {
      std::printf("case %d of seed %llu is wrong\n", k, static_cast<unsigned long long>(seed));
      print(pieces);
      return 1;
    }
    if (pieces.size() > 8) ++(expected ? with_shared : disjoint);
  }
  std::printf("%d %d\n", disjoint, with_shared);
  return 0;
}
