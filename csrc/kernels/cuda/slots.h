// Slots: places that follow one another in the destination and begin at an address that is a multiple of their size
// together, so that a thread writes them by one store.
#pragma once

#include "device.h"

namespace torch_dml_ops::cuda {

template <class Offset>
struct Slot {
  Offset range;  // -1 if there is no such slot
  Offset first;  // which place of its range the slot's place `begin` is
  Offset at;     // the destination's item at the slot's place 0
  int begin, end;

  __device__ bool exists() const { return range >= 0 && begin < end; }
  __device__ bool is_whole(int count) const { return begin == 0 && end == count; }
};

// A destination as ranges without gaps, each of which is cut into slots.
template <class Offset>
struct Slots {
  Divisor<Offset> per_range;
  Offset places;    // of a range
  Offset count;     // of the slots of all ranges
  int first, last;  // dimensions [first, last) tell the ranges apart, those from `last` on are a range's own

  // `strides` are those that tell the ranges apart, their bits together.
  template <class Item, int kCount>
  static Slots of(const char* dst, int64_t strides, int64_t places, int64_t ranges, int first, int last) {
    // Ranges that begin alike need no slot more for beginning elsewhere.
    const bool alike = strides % kCount == 0;
    const int64_t lead = alike ? int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kCount : kCount - 1;
    const int64_t each = (lead + places + kCount - 1) / kCount;
    return {Divisor<Offset>(each), Offset(places), Offset(each * ranges), first, last};
  }

  // The slot of this number. dst_at(range) is where a range begins.
  template <class Item, int kCount, class DstAt>
  __device__ __forceinline__ Slot<Offset> slot(Offset number, const Item* dst, DstAt dst_at) const {
    Slot<Offset> slot{-1, 0, 0, 0, 0};
    if (number >= count) return slot;
    slot.range = per_range.quotient(number);
    const Offset in_range = number - slot.range * Offset(per_range.divisor), range_at = dst_at(slot.range);
    const auto lead = Offset(reinterpret_cast<uintptr_t>(dst + range_at) / sizeof(Item) % kCount);
    const Offset first = in_range * kCount - lead;
    slot.at = range_at + first;
    slot.begin = first < 0 ? int(-first) : 0;
    slot.end = places - first < kCount ? int(places - first) : kCount;
    slot.first = first + slot.begin;
    return slot;
  }
};

}  // namespace torch_dml_ops::cuda
