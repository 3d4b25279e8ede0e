typedef uint64_t Vector __attribute__((vector_size(kVectorBytes), may_alias));

// A T at any address. (A struct: an attribute of a plain type would be lost where that is a template's argument.)
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T bits;
};
struct __attribute__((packed, may_alias)) UnalignedVector {
  Vector bits;
};
struct __attribute__((packed, may_alias)) Unaligned32 {
  uint64_t bits __attribute__((vector_size(32)));
};

// 16 bytes of items, at any address.
template <class T>
struct __attribute__((packed, may_alias)) UnalignedLanes {
  typedef T Lanes __attribute__((vector_size(16)));
  Lanes bits;
};
