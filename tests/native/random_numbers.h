// What programs that make random plans draw from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

inline std::mt19937_64 random_bits;

inline int64_t any(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_bits);
}
inline bool chance(double p) { return std::bernoulli_distribution(p)(random_bits); }

template <class T>
T one_of(std::initializer_list<T> values) {
  return std::data(values)[any(0, int64_t(values.size()) - 1)];
}

inline std::vector<char> any_bytes(int64_t count) {
  std::vector<char> bytes(static_cast<std::size_t>(count));
  for (char& b : bytes) b = char(random_bits());
  return bytes;
}

// So many numbers from 0 on.
inline std::vector<std::size_t> any_order(std::size_t count, bool shuffled) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (shuffled) std::shuffle(order.begin(), order.end(), random_bits);
  return order;
}
