// Slots: places that follow one another in the destination and begin at an address that is a multiple of their size
// together, so that a thread writes them by one store.
#pragma once

#include <algorithm>

#include "device.h"

namespace torch_dml_ops::cuda {

// A slot of a destination: its range, the item offset of its first place, and which of its places are in the range.
template <class Offset>
struct Slot {
  Offset range;  // -1 if there is no such slot
  Offset in_range;
  Offset at;
  Offset first;  // which place of the range is the slot's place `begin`
  int begin, end;
};

// A destination as ranges without gaps, each of which is cut into slots.
template <class Offset>
struct Slots {
  Divisor<Offset> per_range;
  Offset places;  // of a range
  Offset count;   // of all ranges
  int outer;      // dimensions before those of a range

  // `strides` are those of the outer dimensions, their bits together.
  template <class Item, int kCount>
  static Slots of(const char* dst, int64_t strides, int64_t places, int64_t ranges, int outer) {
    // Ranges that begin alike need no slots for beginning otherwise.
    const bool alike = strides % kCount == 0;
    const int64_t lead = alike ? int64_t(reinterpret_cast<uintptr_t>(dst) / sizeof(Item)) % kCount : kCount - 1;
    const int64_t each = (lead + places + kCount - 1) / kCount;
    return {Divisor<Offset>(each), Offset(places), Offset(each * ranges), outer};
  }

  __device__ Slot<Offset> slot(Offset number) const {
    Slot<Offset> slot{-1, 0, 0, 0, 0, 0};
    if (number >= count) return slot;
    slot.range = per_range.quotient(number);
    slot.in_range = number - slot.range * Offset(per_range.divisor);
    return slot;
  }

  // Fills in the rest of a slot whose range begins at dst + dst_at.
  template <class Item, int kCount>
  __device__ void place(Slot<Offset>& slot, const Item* dst, Offset dst_at) const {
    const auto lead = Offset(reinterpret_cast<uintptr_t>(dst + dst_at) / sizeof(Item) % kCount);
    const Offset first = slot.in_range * kCount - lead;
    slot.at = dst_at + first;
    slot.begin = first < 0 ? int(-first) : 0;
    slot.end = places - first < kCount ? int(places - first) : kCount;
    slot.first = first + slot.begin;
  }
};

}  // namespace torch_dml_ops::cuda
