// Vectors, and values at addresses that need not be aligned. All may alias anything.

typedef uint64_t Vector __attribute__((vector_size(kVectorBytes), may_alias));

// A T at any address. (A struct, because a type's attributes are lost when it becomes a template argument.)
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

// 16 bytes at any address, as lanes of T.
template <class T>
struct __attribute__((packed, may_alias)) UnalignedLanes {
  typedef T Lanes __attribute__((vector_size(16)));
  Lanes bits;
};
