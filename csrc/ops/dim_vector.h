// A vector with an entry for each dimension. It allocates no memory for ranks up to kInline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace torch_dml_ops {

template <class T>
class DimVector {
 public:
  explicit DimVector(std::size_t size) : size_(size) {
    if (size > kInline) heap_ = std::make_unique<T[]>(size);
  }
  DimVector(std::span<const T> values) : DimVector(values.size()) { std::copy(values.begin(), values.end(), begin()); }
  DimVector(DimVector&&) noexcept = default;  // copies the inline numbers, or moves the pointer to those on the heap

  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  std::size_t size() const { return size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t k) { return data()[k]; }
  const T& operator[](std::size_t k) const { return data()[k]; }
  operator std::span<const T>() const { return {data(), size_}; }
  bool operator==(const DimVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  static constexpr std::size_t kInline = 8;

  std::size_t size_;
  T inline_[kInline];
  std::unique_ptr<T[]> heap_;
};

}  // namespace torch_dml_ops
