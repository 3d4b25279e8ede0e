// NumPy's basic indices, as windows.

namespace torch_dml_ops::python {
namespace {

// Whether a slice consists of ints and None only. (PySlice_Unpack would turn a symbolic size into a number, which would
// then be a constant of the traced graph.)
bool is_plain_slice(PyObject* slice) {
  if (Py_TYPE(slice) != &PySlice_Type) return false;
  for (PyObject* name : {names.start, names.stop, names.step}) {
    const Object part(PyObject_GetAttr(slice, name));
    if (!part || (part.get() != Py_None && PyLong_CheckExact(part.get()) == 0)) return false;
  }
  return true;
}

// NumPy's basic indices: slices and whole numbers, one for each dimension, None, and at most one Ellipsis.
class Index {
 public:
  explicit Index(PyObject* index)
      : index_(index), is_tuple_(PyTuple_CheckExact(index) != 0), entries_(is_tuple_ ? PyTuple_Size(index) : 1) {}

  // Whether all entries are such, and the numbers plain ints. Nothing is known of their values yet.
  bool plain() {
    for (Py_ssize_t k = 0; k < entries_; ++k) {
      PyObject* entry = (*this)[k];
      if (entry == Py_None)
        ++new_dims_;
      else if (PyLong_CheckExact(entry) != 0)
        ++numbers_;
      else if (entry == Py_Ellipsis && ellipsis_ == entries_)
        ellipsis_ = k;
      else if (is_plain_slice(entry))
        ++slices_;
      else
        return false;
    }
    return true;
  }

  bool slices_alone() const { return numbers_ + new_dims_ == 0; }

  // The window that is read of a tensor of these sizes, a number reading one element, and the sizes of the result
  // behind it. False where the number of entries is out of range, and where nothing is read. A number out of range
  // gives a window that slice1 refuses.
  bool read(const int64_t* sizes, int64_t rank, FastCall& call) const {
    const int64_t whole = rank - slices_ - numbers_, result_rank = rank - numbers_ + new_dims_;
    if (whole < 0 || rank < 1 || 3 * rank + result_rank > FastCall::kMostNumbers) return false;
    for (int k = 0; k <= 3; ++k) call.begin[k] = k * rank;
    call.begin[4] = 3 * rank + result_rank;
    call.lists = 4;
    call.missing = 1u << 3;  // slice1's output_sizes
    int64_t d = 0, *result_size = call.numbers + 3 * rank;
    for (Py_ssize_t k = 0; k <= entries_; ++k) {
      if (k == ellipsis_)  // it is behind the last entry where there is none
        for (int64_t left = whole; left > 0; --left, ++d)
          if (!read_slice(nullptr, sizes[d], &call.numbers[d], rank, *result_size++)) return false;
      PyObject* entry = k < entries_ ? (*this)[k] : Py_Ellipsis;
      if (entry == Py_Ellipsis) continue;
      if (entry == Py_None) {
        *result_size++ = 1;
      } else if (PyLong_CheckExact(entry) != 0) {
        if (!read_number(entry, sizes[d], &call.numbers[d], rank)) return false;
        ++d;
      } else {
        if (!read_slice(entry, sizes[d], &call.numbers[d], rank, *result_size++)) return false;
        ++d;
      }
    }
    return true;
  }

 private:
  PyObject* operator[](Py_ssize_t k) const { return is_tuple_ ? PyTuple_GetItem(index_, k) : index_; }

  // Both write offset, size and stride to numbers[0], [rank] and [2 * rank]. A slice of null is the whole dimension.
  static bool read_slice(PyObject* slice, int64_t size, int64_t* numbers, int64_t rank, int64_t& steps) {
    Py_ssize_t start = 0, stop = size, step = 1;
    if (slice != nullptr && PySlice_Unpack(slice, &start, &stop, &step) != 0) return false;
    steps = PySlice_AdjustIndices(size, &start, &stop, step);
    if (steps < 1) return false;
    numbers[rank] = (steps - 1) * (step < 0 ? -step : step) + 1;
    numbers[0] = step < 0 ? start - numbers[rank] + 1 : start;
    numbers[2 * rank] = step;
    return true;
  }

  static bool read_number(PyObject* number, int64_t size, int64_t* numbers, int64_t rank) {
    int overflow = 0;
    const int64_t index = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) return false;
    numbers[0] = index < 0 ? index + size : index;
    numbers[rank] = numbers[2 * rank] = 1;
    return true;
  }

  PyObject* index_;
  bool is_tuple_;
  Py_ssize_t entries_;
  Py_ssize_t ellipsis_ = entries_;
  int64_t slices_ = 0, numbers_ = 0, new_dims_ = 0;
};

}  // namespace
}  // namespace torch_dml_ops::python
