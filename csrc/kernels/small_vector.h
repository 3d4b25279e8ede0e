// A vector that allocates no memory for up to kInline items: plans and arguments of a call on the stack, where a small
// copy takes no longer than an allocation.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace torch_dml_ops {

template <class T, std::size_t kInline>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t size) { resize(size); }
  template <class Items>
    requires std::convertible_to<const Items&, std::span<const T>>
  SmallVector(const Items& items) {
    append(items);
  }
  SmallVector(std::initializer_list<T> items) { append(std::span<const T>(items.begin(), items.size())); }
  SmallVector(const SmallVector& other) { append(other); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(SmallVector other) noexcept {
    free();
    take(other);
    return *this;
  }
  ~SmallVector() { free(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t k) { return data_[k]; }
  const T& operator[](std::size_t k) const { return data_[k]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(std::size_t capacity) {
    if (capacity > capacity_) move_to(std::allocator<T>().allocate(capacity), capacity);
  }
  // New items are not initialised if T needs no constructor.
  void resize(std::size_t size) {
    reserve(size);
    if (size > size_) std::uninitialized_default_construct(data_ + size_, data_ + size);
    if (size < size_) std::destroy(data_ + size, data_ + size_);
    size_ = size;
  }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == capacity_) reserve(2 * capacity_);
    T* const item = std::construct_at(data_ + size_, std::forward<Arguments>(arguments)...);
    ++size_;
    return *item;
  }
  void push_back(T item) { emplace_back(std::move(item)); }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void erase(T* item) {
    std::move(item + 1, end(), item);
    pop_back();
  }

  bool operator==(const SmallVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }

  void append(std::span<const T> items) {
    reserve(size_ + items.size());
    std::uninitialized_copy(items.begin(), items.end(), end());
    size_ += items.size();
  }
  void move_to(T* place, std::size_t capacity) {
    std::uninitialized_move(begin(), end(), place);
    std::destroy(begin(), end());
    if (data_ != inline_data()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = place;
    capacity_ = capacity;
  }
  // Of an empty vector.
  void take(SmallVector& other) {
    if (other.data_ == other.inline_data()) {
      std::uninitialized_move(other.begin(), other.end(), data_);
      size_ = other.size_;
      return;
    }
    data_ = std::exchange(other.data_, other.inline_data());
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInline);
  }
  void free() {
    std::destroy(begin(), end());
    size_ = 0;
    if (data_ != inline_data()) move_to(inline_data(), kInline);
  }

  alignas(T) std::byte inline_[kInline * sizeof(T)];
  T* data_ = inline_data();
  std::size_t size_ = 0, capacity_ = kInline;
};

// An entry for each dimension. DirectML has up to 8.
template <class T>
using DimVector = SmallVector<T, 8>;

}  // namespace torch_dml_ops
