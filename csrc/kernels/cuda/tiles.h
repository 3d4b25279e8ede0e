// What a tile is made of: words, which are transposed in registers, and items where words would reach too far.
#pragma once

#include <algorithm>

#include "vectors.h"

namespace torch_dml_ops::cuda {

// A tile's side in items: a row of a tile is a whole number of the 32-byte sectors in which GPUs access memory.
template <class Item>
constexpr int kTileSide = sizeof(Item) < 4 ? 64 : 32;

template <class Item>
constexpr int kItemsPerWord = std::max(4 / int(sizeof(Item)), 1);

// Transposes a square of 2 × 2 items of 2 bytes, or of 4 × 4 bytes.
__device__ __forceinline__ void transpose(uint32_t (&rows)[2]) {
  const uint32_t first = permute_bytes(rows[0], rows[1], 0x5410);
  rows[1] = permute_bytes(rows[0], rows[1], 0x7632);
  rows[0] = first;
}
__device__ __forceinline__ void transpose(uint32_t (&rows)[4]) {
  uint32_t left[2] = {permute_bytes(rows[0], rows[1], 0x5140), permute_bytes(rows[2], rows[3], 0x5140)};
  uint32_t right[2] = {permute_bytes(rows[0], rows[1], 0x7362), permute_bytes(rows[2], rows[3], 0x7362)};
  transpose(left);
  transpose(right);
  rows[0] = left[0], rows[1] = left[1], rows[2] = right[0], rows[3] = right[1];
}
template <class Item>
__device__ __forceinline__ void transpose(Item (&)[1]) {}

// Items [begin, end) of a word, loaded one by one.
template <class Word, class Item>
__device__ Word load_items(const Item* from, int begin, int end) {
  constexpr int kItems = sizeof(Word) / sizeof(Item);
  Item items[kItems] = {};
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    if (k >= begin && k < end) items[k] = load(from + k);
  return to_word<Word>(items);
}

}  // namespace torch_dml_ops::cuda
