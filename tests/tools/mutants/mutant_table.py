"""The faults of mutants.py: by area, the tests that should notice, and by file, what becomes what.

Tests are what pytest is called with, which leaves out the thorough ones, or after a `$` programs of host_build.py.

Of a text, what lies between « and » is replaced. Texts are short, so that they survive changes nearby; where one does
not occur exactly once any more, test_mutants.py says so.
"""

# ruff: noqa: E501  (rows of sources)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

OWN_TESTS = {  # where those of the area take long
    "CACHES": "tests/compile/test_inductor.py -k 'a_cache_of or mark_of_caches'",
    "GRADCHECK": "tests/contract/test_autograd.py -m '' -k 'ordinary and (gradcheck or torch_func)'",
    "INDEX": "tests/indexing/test_index.py tests/indexing/test_window.py -k 'numpys or small_sizes or malformed or empty'",
    "JOINS": "tests/contract/test_properties.py -k join_takes_the_first_order",
    "STORAGES": "tests/contract/test_unusual_inputs.py -k 'storage or without_memory'",
    "BOTH": "$ kernels_fuzz 1000 0 && kernels_fuzz alignments",
    "RULE": "tests/compile/test_inductor.py -k 'rule or a_line_names'",
}
# In [], an area, with its tests; a file; and its rows: the text ==> what it becomes  ## tests of its own  ~~ why nothing
# changes by it: in no result at all, or in none at the baseline level. A new line is written as \n.
TABLE = r"""
[operators] tests/contract/test_refusals.py tests/contract/test_windows_and_lengths.py tests/contract/test_out.py tests/contract/test_results.py -k 'not on_host'
csrc/ops/windows.cpp
  strides[d] < 0 ? «sizes[d] - 1» : 0); } ==> sizes[d]
  require(«w.strides[d] != 0», op ==> true
  require(«w.offsets[d] <= sizes[d] - w.sizes[d]», op ==> w.offsets[d] < sizes[d]
  Name{"input"}, input, «false») ==> true
  sizes[d] == 1 ? 0 : «src_strides[d] * w.strides[d]» ==> src_strides[d]
  dim.begin -= «(count - 1)» * dim.step ==> count
  dim.src_stride = «-stride»; ==> stride
  copy.src += w.start(d) * «src_strides[d]» * item ==> dst_strides[d]
  copy.src += «(count - 1)» * stride * item ==> count
  size >= «std::min<int64_t>(most[d], 1)» && size ==> 0
  require(size >= least && «size <= most[d]», "slice_grad ==> true
csrc/ops/operator.h
  require(«out.size() == each.size()», kName ==> true
  check_disjoint(kName, name, out, Name{kArguments[at]}, argument); ==> ;
  «check_disjoint_outs(kName, out);» ==>
csrc/ops/pieces.cpp
  size <= rest ? «rest - size» : -1 ==> rest
  «int64_t(d) == axis» || given[d] ==> false
  begin * «whole_strides[std::size_t(axis)]» * item ==> 1
  == axis ? «piece_size» : sizes[d], dst ==> sizes[d]
  require(«!__builtin_add_overflow(sum, size, &sum)», "join ==> (sum += size, true)
csrc/ops/check.cpp
  int64_t last = «t.storage_offset()»; ==> 0  ## STORAGES
  last += «(sizes[d] - 1)» * strides[d]; ==> sizes[d]  ## STORAGES
  «last >= bytes / item_size» ==> last > bytes / item_size  ## STORAGES
  «data_of(op, out_name, out, false);» ==>  ## STORAGES
  «out.mutable_data();»\n  refuse_shared ==>
  for (const Tensor& out : outs) «out.mutable_data();» ==>
  «int64_t(k) != except» && given[k] ==> true
csrc/ops/layout.cpp
  return own; ==>  ## JOINS
  strides[a] > strides[b] : «sizes[a] > sizes[b]» ==> false
  if («sizes[d] == 1») continue;\n    if (!repr ==> false
  require_fits(is_empty || «stride <= kMost / like.element_size()») ==> true
  order[k - 1]); --k) order[k] = «order[k - 1]» ==> order[k]
csrc/ops/reverse_subsequences.cpp
  is_axis ? 0 : «length[d]» ==> length[0]
  copy.dims.push_back({sizes[d], dst[d], «src[d]», is_axis ==> dst[d]
csrc/ops/boxed.h
  «TORCH_ERROR_CODE_CHECK(torch_delete_list(list));»\n  return tensors ==>  ## tests/dispatch/test_short_way.py -k leave
  call.refused = true; ==>  ## tests/dispatch/test_short_way.py
  std::optional<Ints>(call.list(«lists++»)) ==> lists - 1  ## tests/dispatch/test_short_way.py
[overlap] tests/kernels/test_overlap.py tests/contract/test_checks.py tests/contract/test_out.py -k '(overlap or shared or share) and not on_host'
csrc/ops/overlap.cpp
  large.weight % small.weight != 0 || «small.limit < m - 1» ==> false
  std::gcd(divisor_[k + 1], terms_[k].weight) ==> terms_[k].weight
  «target - x * term.weight <= reach_[k + 1]»; --x ==> x == std::min<__int128>(target / term.weight, term.limit)
  item_size > 1) terms.push_back({1, «v.item_size - 1» ==> v.item_size
  a.begin + «largest_sum(b.terms)» ==> 0
  i.begin >= «end») ==> i.begin
  begins[met] < «end - projection.back()» ==> 0
  begin + length > stride ==> false
  bytes_[w].end() <= «bytes_[v].begin» ==> bytes_[v].begin + 8
  «nested &= d.weight > reach;» ==> nested &= d.weight >= reach;
  2 * dims[j].limit ==> dims[j].limit
  end_of(a) <= b.address || «end_of(b) <= a.address» ==> end_of(b) <= a.address + 1
  reach = std::max(reach, end_of(views[order[end]])); ==>
[CPU engine] $ kernels_fuzz 1000 0 cpu && kernels_fuzz alignments cpu
csrc/kernels/affine_copy.h
  inner.reads_all() && «step == 1» && ==> true
  begin == 0 && step == 1 && «count == size» ==> true
      «aligned.include(copy.src);»\n  }\n  const int64_t parts = plan ==>  ## BOTH
csrc/kernels/reverse_copy.h
  «length_stride == inner.size * inner.length_stride» ==> true
  j * d.length_stride * «length_bytes(copy.length_type)» ==> 8  ## BOTH
  copy.src += j * «d.src_stride» * item_size ==> d.dst_stride  ## BOTH
  «src_stride == inner.size * inner.src_stride» && length ==> true  ## BOTH
  src_stride == 1 && «length_stride == 0»; } ==> true  ## BOTH
csrc/kernels/plan.h
  vec.include(dims[k].src_stride * item_size); ==>  ## $ kernels_fuzz alignments
  vec.include(dims[k].dst_stride * item_size); ==>  ## BOTH
  extents()) «vec.include(extent * item_size);» ==>  ## BOTH
      dims[k].src_stride /= «vec_size»; ==> 1  ## BOTH
  d.src_stride *= parts.size; ==>  ## BOTH
csrc/kernels/cpu/affine_copy.cpp
  !d.reads_all() || «d.src_stride != 1» ==> false
  «d.dst_stride != count» ==> false
  copy.dst != copies.front().dst + writer.bytes(k) ==> false
  count > kMaxInterleaved ==> count > kMaxInterleaved + 1
  copy.dims.size() == 2 && «are_segments(copy.dims)» ==> true
  && «copy.dims.back().src_stride == 1» ==> true
  first.size != copies.front().dims.front().size ==> false
  copy.dims.front().dst_stride != stride ==> false
  !is_dense(inner) ==> false
  copy.dst - first + writer_.bytes(n) > writer_.bytes(stride) ==> false
  «items != stride» || bytes > ==> false
  dst += writer_.bytes(index * «d.dst_stride») ==> d.src_stride
  first = «std::min(first, copy.dst)»; ==> copy.dst
  next.dst && «segment.bytes <= next.bytes» && ==> true
  («next_follows» || segment.dst_row_stride ==> true
  gap >= 0 && «gap < kPageBytes» && ==> true
csrc/kernels/cpu/chunk_writer.h
  max_staged == 0 || «!is_dense(dims)» ==> false
  if (src && «are_segments(dims)») { ==> dims.size() <= 2
  segment.dst != at || «segment.dst_row_stride != segments.front().dst_row_stride») ==> false
  at == «segments.front().dst + segments.front().dst_row_stride» ? ==> at
  index <= row.begin ? 0 : std::min(«row.count», ==> row.count + 1
  zero(«window_end», end) ==> window_end - 1
  kCacheLineBytes), whole = «kept_ - rest» ==> kept_
  lines(*this, «dst + begin * each», staging) ==> dst
  sources) source += «bytes(some)»; ==> some
  rows > 1 && «least >= kCacheLineBytes») all ==> true
  bytes(rows ? «d.src_stride» : 0) ==> d.dst_stride
  nullptr : src + bytes(«index» * d.src_stride) ==> j
  d.reads_all() && «dims[1].dst_stride == 1» ==> true
  } else if («row.dst_stride == 1») { ==> true
  copy_row(at(window), «row.dst_stride * row.step» ==> row.dst_stride
  std::memcpy(line, begin_ + whole, std::size_t(rest)); ==>
csrc/kernels/cpu/reverse_copy.cpp
  to[k] = «length < 0» ? 0 ==> false
  column.dst_stride != 1 || «column.src_stride != 1» ==> false
  reversed ? «n - 1 - begin» : begin ==> n - begin
  «column_.dst_stride == axis_.size» ? ==> true
  «chunk.column_end = std::min(chunk.column_end, column.size);» ==>
  reversed ? «-axis_.src_stride» : axis ==> axis_.src_stride
  «chunk.end = std::min(chunk.end, axis.size);» ==>
  from + «k * stride» * int64_t(sizeof(T)) ==> k
  end - j, axis_.size, column_.dst_stride, «column_.src_stride» ==> column_.dst_stride
  length_offset += «index * dims[k].length_stride» ==> index
  int64_t(«std::min(uint64_t(length), uint64_t(axis_size))») ==> length
  src += index * «dims[k].src_stride» ==> dims[k].dst_stride
csrc/kernels/cpu/inner_loops/vectors.inl
  if («i < n») move(n - kItems) ==> false
  if («i > 0») move(0) ==> false
  move(0), i = «kItems - past» ==> kItems + 1
csrc/kernels/cpu/inner_loops/copy.inl
  if («last») move(dst + last ==> false
  if («at < bytes») move(bytes - kVectorBytes) ==> false
  last = «bytes - kHalf * kVectorBytes» ==> kHalf * kVectorBytes
  t.rows >= kEnough && t.bytes <= «8» * kVectorBytes ==> 9
  copy = t.bytes <= «4» * kVectorBytes ==> 5
  std::min(at_once, «batch.row_end - row») ==> at_once
  dst[i] = src[«i * src_stride»] ==> i
  src)[«r * t.src_row_stride»];\n    for ==> r
  move(0);\n    at = «kVectorBytes» ==> 2 * kVectorBytes
  if («bytes > 0») *dst ==> bytes > 1
  if («bytes > 1») return copy ==> bytes > 2
  last = «t.bytes - kSize» ==> t.bytes - kSize - 1
  switch («whole» ? std::bit_width ==> true
  r = 1; r < «kSpillingRows»; ++r ==> kSpillingRows + 1
csrc/kernels/cpu/inner_loops/transpose.inl
  std::min(«i», columns - kColumns) ==> int64_t(0)
  backwards ? «rows - 1 - k» : k ==> k
  std::min(kRows, «t.rows - r») ==> t.rows
  return from + «k * src_stride» ==> k
  rows >= kSide && «columns * int64_t(sizeof(T)) >= kVectorBytes» ==> true
  if («rows >= kSide» && columns * ==> true
  std::min(kColumns, «t.n - i») ==> t.n
  backwards ? «-(r + rows - 1)» : r ==> -r
  std::min(«j», rows - kSide) ==> int64_t(0)
csrc/kernels/cpu/inner_loops/reverse.inl
  reverse_row(dst, src + «length - 1», length, align) ==> length
  transposed + j * stride + «p.lengths[j]» - kSide ==> p.lengths[j] - 1
  return «ends[j + column]» - i ==> ends[j]
  std::min(«k», p.axis_size - kSide) ==> int64_t(0)
  std::min(«c», p.columns - kColumns) ==> int64_t(0)
  r = «kSide - 1 - row» ==> row
  if («p.axis_size < kSide» || ==> false
  || «p.columns < kSide») { ==> false
  if («n * kSize >= kVectorBytes») return ==> n * kSize > kVectorBytes / 2
  if («n * kSize >= 8») return ==> n * kSize >= 7
  i < n; ++i) «dst[i] = src[-i];»\n} ==> dst[i] = src[i];
  «(t.n - length)» * int64_t ==> (t.n - length - 1)
  std::clamp<int32_t>(«lengths[j]» - int32_t(i), 0 ==> lengths[0]
  none = or_zero(«kItems - left») ==> kItems - left - 1  ~~ the baseline does not shuffle bytes
  load(src + «or_zero(left - kItems)») ==> or_zero(left - kItems - 1)  ~~ the baseline does not shuffle bytes
  reverse_part(dst, src, t.lengths[r], «t.n - kItems») ==> t.n - kItems - 1  ~~ the baseline does not shuffle bytes
csrc/kernels/cpu/inner_loops/strided.inl
  if (kUpwards) «items(n - 1, n);» ==>
  bytes = «(n - 1)» * int64_t(sizeof(T)) ==> n  ~~ the baseline's loads are of larger items, whose short rows spill
  ? from + 1 - «kApart * Lanes::kLanes» : from;\n  constexpr ==> kApart
  high = low + «16 * kApart» ==> 16  ~~ the baseline does not shuffle bytes
  load_strided<T, kStep, kBytes>(src + «i * kStep») ==> i
  i < to; ++i) dst[i] = src[«i * kStep»] ==> i
  i < t.n; ++i) dst[i] = src[«i * kStep»] ==> i
  begin = towards_next ? 0 : «std::min(read_past, t.rows)» ==> int64_t(0)
  std::max(«units(items, t.n) - 1», towards_next ==> int64_t(0)
  towards_next ? «read_past» : 0); ==> int64_t(0)  ~~ the baseline's narrow vectors read no further past their row than they spill
  towards_next = «(kStep > 0)» == (t.src_row_stride ==> true
  std::memcpy(dst + «k * t.n», &vectors[k] ==> k
  if («t.dst_row_stride != t.n» || t.n < kFewest ==> false
  apart == 0 || «gap >= kPageBytes») return ==> false
csrc/kernels/cpu/inner_loops/dilate.inl
  zero_row(reinterpret_cast<char*>(dst), «t.begin» * kSize) ==> t.begin - 1
  src_stride == -1 && «step == 2») ==> step >= 2
  «t.size - end») * kSize ==> t.size - end - 1
  k < kStep; ++k) «dst[i * kStep + k] = T{};» ==>
  src[«(n - 1) * src_stride»] ==> n * src_stride
  dst[i * step] = src[«i * src_stride»] ==> i
  src_stride == 1 && «step == 3» ==> step >= 3
  if («bytes >= 16») return by ==> bytes > 8
  at < bytes; ++at) «dst[at] = 0;» ==>
  end = t.begin + «(t.n - 1) * t.step + 1» ==> t.n * t.step
  else if («t.src_stride == -1») ==> t.src_stride < 0
csrc/kernels/cpu/inner_loops/interleave.inl
  if («count == 2») return ==> count <= 3
  if («count == 3») return ==> count == 4
  const T*>(«sources[k]») ==> sources[kCount - 1 - k]
  dst[«i * kCount + k»] ==> k * n + i
  «i < n»; ++i) ==> i < n - 1
csrc/kernels/cpu/inner_loops/gather.inl
  std::clamp<int64_t>(«p.columns - v * kLanes», 0 ==> p.columns
  std::max(«longest», p.lengths ==> int64_t(0)
  Number(«(length[v][k] - 1)» * p.src ==> length[v][k]
  if («i < longest») ==> i + 1 < longest
  two_rows = Numbers{} + Number(«2 * p.src_axis_stride») ==> p.src_axis_stride
  Mask(«(1u << columns) - 1») ==> 1u << columns
  if («sizeof(T) == 4 && reach > std::numeric_limits<int32_t>::max()») return ==> false
  p.src += «kGathered<T> * int64_t(sizeof(T))» ==> kGathered<T>
  «p.lengths += kGathered<T>;» ==>
csrc/kernels/cpu/inner_loops/non_temporal.inl
  head && «before») { ==> nullptr
  last = «row + 1 == batch.row_end» && ==> false
  items(«end», n);\n  } else ==> end + 1
  kAcrossRows && «row > batch.row_begin» ==> true
  std::min(«bytes_to_line(dst)», bytes) ==> int64_t(0)
  «std::memcpy(both, before - kCacheLineBytes, kCacheLineBytes);» ==>
  at < bytes && «!continues» ==> continues
  std::min(«bytes_to_line(dst) / int64_t(sizeof(T))», n) ==> bytes_to_line(dst)
  before = src - segment.src_row_stride + «segment.bytes» ==> 0
  LineSharing::kAll) «before = src + segment.bytes;» ==> before = src;
  std::min(«i + kBuffered», end) ==> i + kBuffered - 1
[CUDA kernels] $ kernels_fuzz 1000 0 && kernels_fuzz alignments
csrc/kernels/cuda/access_pattern.h
  vec.include(copy.dst); ==>
  word.include(copy.dims[column].size * item_size); ==>
  if (k != column) word.include(«copy.dims[k].dst_stride» * item_size) ==> 0
  if (k != row) «word.include(copy.dims[k].src_stride * item_size)» ==> word.include(int64_t(0))
  word.value() == kWordBytes && «copy.dims[row].src_stride == 1» ==> true
csrc/kernels/cuda/affine_copy.cu
  «lead + row_size» <= kTileSide<Item> / 2 ==> row_size
  row_tiles = tiles(«lead + row_size») ==> row_size
  («copy.vector_loads.include(from)» && ==> true
  «copy.vector_loads.include(from + std::min(loads - 1, kSide - 1) * column.src_stride)» ==> true
  columns_left < 2 * kSide ? «int(columns_left)» : ==> 2 * kSide
  std::min(vec_size, «max_vec_size(copy.dims, plan.item_size, copy.dst, copy.src)») ==> max_vec_size(copy.dims, plan.item_size, copy.src, copy.src)
  launches.max_index = std::max(«launches.max_index», index_bound ==> int64_t(0)
  launches.rank = std::max(«launches.rank», copy ==> std::size_t(0)
  j < k * kStep + kVecSize && «j < left» ==> true
  all([&](AffineCopy& copy) { return «tiles_have_words(copy, launches.item_size)»; }); ==> tiles_have_words(launches.copies.front(), launches.item_size)
csrc/kernels/cuda/copy_loads.h
  if («at.row.outside» || i + kVecSize <= 0 ==> false
  if («at.index >= 0» && at.index + kVecSize <= copy ==> true
  count = «at.row.outside ? 0 : inner.count» ==> inner.count
  if («!copy.vector_loads.include(first)») return false ==> false
  if («!copy.vector_loads.include(from)») return false ==> false
csrc/kernels/cuda/copy_params.h
  «distance < 0» || q * Offset ==> false
  != distance || «q >= dim.count» ==> false
  order.same_chunks = «order.same_chunks» && ==> true
  number < «begin_of(round + 1)» ? ==> kNoChunk
  «begin_of(round)» + ==> uint32_t(round)
  (uint32_t(within) «- order.first_in_round[first]») ==>
csrc/kernels/cuda/interleaved.h
  const bool any = «piece < params.pieces»; ==> true
  row * whole_size + «piece * row_size» + i ==> 0
  params.«whole_vectors» ? items / kVecSize : 0; ==> whole_vectors || true
  if («params.whole_words» && word.count == kPerWord) {\n          const ==> true
  if («params.whole_words» && word.count == kPerWord) {\n        store ==> true
  «at += whole_size - row_size»; ==>
csrc/kernels/cuda/dims.h
  std::max({«dst», src, numel(dims)}) ==> int64_t(0)
  std::max({dst, «src», numel(dims)}) ==> int64_t(0)
  src += max_offset(«d.source_size()», d.src_stride) ==> 1
  dst += max_offset(d.size, «d.dst_stride») ==> d.src_stride
csrc/kernels/cuda/vec_partition.h
  alike(inner) ? misalignment : «kVecSize - 1» ==> misalignment
  !alike(last) && «alike(last - 1)» ==> true
  «dims[last - 1].dst_stride == row_size» && ==> true
  (vecs.misalignment + «uint32_t(v.row.dst)») ==> 0u
csrc/kernels/cuda/vectors.h
  / kBytes * kBytes - «kBytes»; ==> 0
csrc/kernels/cuda/reverse_copy.cu
  word.include(copy.src); ==>
  word.include(copy.dst); ==>
  word.include(copy.dims.back().size * copy.item_size); ==>
  word.include(«copy.dims[k].src_stride» * copy.item_size) ==> copy.dims[k].dst_stride
  word.include(«copy.dims[k].dst_stride» * copy.item_size) ==> copy.dims[k].src_stride
  std::max(«index_bound(copy.dims)», length) ==> int64_t(0)
  std::max(index_bound(copy.dims), «length») ==> int64_t(0)
  max_offset(dim.size, «dim.length_stride») ==> dim.dst_stride
  if («is_signed» && int64_t(length) < 0) ==> true
  «column.src_stride != 1») return 0;\n  const int64_t sector ==> false
  «row.length_stride == 0» && row.src_stride == 1 ==> true
  row.length_stride == 0 && «row.src_stride == 1» ==> true
  columns && «Offset(threadIdx.x) < columns_left» ==> true
  «params.vector_loads.include(at.src + i)» && params ==> true
  && «params.vector_loads.include(at.src + from_reversed)» ==> true
  (params.rows.misalignment + «uint32_t(at.dst)») ==> 0u
[short way] tests/dispatch/test_short_way.py
csrc/python/plain.inl
  type == torch_.tensor || «type == torch_.parameter» ==> true
  if («modes_interfere()») return false ==> false
  != Py_None) return «false»;\n  long level ==> true
  level < 0 && «kernels_are_ours()» ==> true
  before >= 0 && «before / 2 == count») return ==> true
  || «layout != aoti_torch_layout_strided()» ==> false  ~~ the overloads `fast` have kernels for strided tensors alone: the dispatcher refuses others, and the call falls back all the same, only later
  return «overflow == 0»; ==> true
  item(list, k));\n      «torch_delete_list(list);» ==>
  «torch_delete_list(list);»\n    return tensors ==>
  «aoti_torch_delete_tensor_object(stable::to<AtenTensorHandle>(values_[size_]));» ==>
  «++tensors_[size_ - 1];» ==>
  if (capsule && «is_true(torch_.takes_ownership)») return result ==> true
  if («begin + count» > FastCall::kMostNumbers) ==> count
  if (!tensor) «result = Object();» ==>
  return «PyErr_Occurred() != nullptr» ? nullptr : fall_back() ==> false
  if («requires_grad((*this)[k])») return (*this)[k] ==> k == 0 && requires_grad((*this)[k])
csrc/python/fast_calls.cpp
  is_plain(out) && !(«grad_mode» && ==> false
  && !«answers_true(out, names.is_inference)» ==> false
  || «says_true(torch_.is_excluded, torch_.autograd_key)» ==> false
  «says_true(torch_.is_wrapped, requiring_grad)») ==> false
  if («!is_plain(argument)») return false ==> false
  call.missing |= «1u << call.lists» ==> 0
  if («out != Py_None») return written ==> false
  count <= out && «left == 0» && ==> true
  right = «count <= out» && left ==> true
  takes_out && «given[out] != Py_None» : ==> true
  (with_out ? «takes_out» && ==> true
  Py_None : «takes_no_out»); ==> true
  for (Py_ssize_t k = «count»; k <= out && left > 0 ==> 0
  if («grad_mode && inputs.requiring_grad() != nullptr») return ==> false
  «!has_kernels(stack.tensor(place))») ==> false  ~~ where no library has kernels for a device, the dispatcher finds none either, and the call falls back all the same, only later
  if («says_true(torch_.is_excluded, torch_.version_key)») ==> false
  several <= «kMostFew»; ==> 6
  return «fast.refused» ? fall_back() : result.release();\n}\n\n// Whether ==> false
  fast) || «fast.refused») return ==> false
  return «call.refused» ? fall_back() : result.release(); ==> false  ## tests/indexing/test_index.py -k storage
csrc/python/index.inl
  entry == Py_Ellipsis && «ellipsis_ == entries_» ==> true  ## INDEX
  if («steps < 1») return false ==> steps < 0  ## INDEX
  index < 0 ? «index + size» : index ==> index + size - 1  ## INDEX
  step < 0 ? «start - numbers[rank] + 1» : start ==> start  ## INDEX
  «3 * rank + result_rank > FastCall::kMostNumbers») return ==> false  ## tests/indexing/test_index.py tests/dispatch/test_short_way.py -k 'malformed or empty or numpys or hands'
torch_dml_ops/_torch/short_way.py
  "AutocastCUDA"«, "BackendSelect"»), ==>
  *("«ADInplaceOrView", "»Conjugate" ==>
  "Negative"«, "ZeroTensor"», "Functionalize") ==>
  form in (""«, ".out"») for ==> ,
  private._impls.difference_update(foreign_kernels) ==> pass
[autograd] tests/contract/test_unusual_inputs.py tests/contract/test_out.py tests/contract/test_autograd.py -m '' -k '(ordinary or test_out or unusual) and not (gradcheck or torch_func or on_host)'
torch_dml_ops/_torch/autograd.py
  if private._are_functorch_transforms_active()« or in_forward_mode()» ==>  ## GRADCHECK
  tensors = *«tangents[: len(shapes)]», *ctx.saved ==> tangents  ## GRADCHECK  ~~ what is between an operator's only input and its constants is not looked at, and no operator that takes a list has any
  ctx.saved_tensors« if self.signature.constants else ()» ==>
  set_single_level_autograd_function_allowed(«allowed») ==> True  ## GRADCHECK
  ctx.save_for_forward(*tensors[count:]) ==> pass  ## GRADCHECK
  with torch.enable_grad(), «private._set_fwd_grad_enabled(True), »private._Auto ==>  ## GRADCHECK
  torch.autograd.graph.increment_version(tuple(signature.listed(out))) ==> pass
  if t.is_conj()« or t.is_neg()»: ==>
  if t.is_inference()« and not torch.is_inference_mode_enabled()» ==>
  «torch.is_grad_enabled() and »t.requires_grad: ==>
torch_dml_ops/_operators/definitions.py
  call("slice1", cotangents[0], offsets, sizes, strides, «shapes[0]») ==> None  ## GRADCHECK
  [«shape[axis]» for shape in shapes] ==> shapes[0][axis]  ## GRADCHECK
[vmap] tests/contract/test_vmap.py tests/contract/test_autograd.py
torch_dml_ops/_operators/definitions.py
  None if output_sizes is None else [n, *output_sizes] ==> None
  return input, split_sizes, «axis + 1» ==> axis
  return inputs, «axis + 1» ==> axis
  return input, sequence_lengths, «axis + 1» ==> axis
  [«piece.clone()» for ==> piece
torch_dml_ops/_torch/vmap.py
  else tensor.movedim(«dim, 0») ==> 0, dim
  del sizes[dim] ==> del sizes[0]
  * len(results) if signature.gives_list else «0» ==> 1
  «check(*map(partial(_in_tensors, _example), arguments, in_dims))» ==> pass
  «check(*arguments)»\n        return by_torch ==> pass
[fake kernels] tests/contract/test_refusals.py tests/compile/test_compile.py -k 'not (opcheck or on_host)'
torch_dml_ops/_operators/definitions.py
  sequence_lengths {rule}", way_out)\n        return «input.shape» ==> sequence_lengths.shape
  checks.same_kind(name, out_name, tensor, first_name, first) ==> pass
  d == axis or «piece.shape[d] == first.shape[d]» ==> True
  «sum(split_sizes) == input.shape[axis]» ==> sum(split_sizes) >= input.shape[axis]
torch_dml_ops/_operators/registration.py
  checked_outs(signature, arguments, out), signature.named_«tensors»(arguments) ==> inputs  ## tests/contract/test_out.py -k 'must_not_be_an_input and meta'
  [new_dense(name, s, «order_of») for s ==> order_of[:1]  ## JOINS
torch_dml_ops/_operators/layout.py
  keys = «sizes if known_true(strides[a] == strides[b]) else strides» ==> strides
  next((«own for own in map(memory_order, before) if _dense_in(own, widest)»), order) ==> order for _ in ()  ## JOINS
  expected *= «torch.sym_max(tensor.shape[d], 1)» ==> tensor.shape[d]
  known_true(tensor.shape[d] == 1) or  ==>
[Inductor's rule] tests/compile/test_inductor.py
torch_dml_ops/_compile/setting.py
  tag = f" torch_dml_ops:«{_mode}»_ ==> any  ## CACHES
  = «_TAG.sub("", config.cache_key_tag) + tag» ==> tag  ## CACHES
torch_dml_ops/_compile/formulas.py
  walks.append((«offset + size - 1», stride)) ==> offset + size
  «1 + »FloorDiv(size - 1, abs(stride)) ==>
  first = «start + (count - 1) * stride» if backwards ==> start
  if not known(«sympy.Eq(first, 0)») ==> True
  ops.lt(place(i), place(end)) ==> ops.le(place(i), place(end))
  reversed_count - «1» - k ==> 0
  index[axis] += start ==> index[axis] -= start
  ops.where(ops.lt(length, none), «whole», length) ==> none
  ops.maximum(«ops.minimum(length, whole)», none) ==> length
torch_dml_ops/_compile/rule.py
  if self.dtype not in «_CONVERTED»:\n            return True ==> (torch.bool,)
  call.bytes <= TINY ==> call.bytes < TINY  ## RULE
  abs(stride) > 4 ==> abs(stride) > 5  ## RULE
  «lengths.meta["val"].stride(d) == 0» ==> True  ## RULE
[index] tests/indexing/test_index.py tests/indexing/test_window.py tests/indexing/test_negative_steps.py tests/dispatch/test_tracing.py::test_every_argument_is_unknown
torch_dml_ops/_indexing/index.py
  proxy_among(input«, *numbers_in(index)») ==>
  any(isinstance(part, Walk) and known_true(«part.length == 0») for part in parts) ==> False
  return number + size if «number < 0» else number ==> False
  d = «sum(part is not None for part in parts[:k])» ==> k  ## tests/compile/test_compile.py -k assigns_at_numbers
  if not -size <= number «< size»: ==> <= size
  «d + shift >= 0 and »backwards[d + shift] ==>
  if given > «len(sizes)»: ==> len(sizes) + 1
  -1 in strides else value«.clone()» ==>
  return slice(offset, offset + size, «-part.step») ==> 1
torch_dml_ops/_indexing/slices.py
  return index + size if index + size >= least else «least» ==> 0
  return index if index <= most else «most» ==> size
  length = max(length, 0) ==> length = max(length, 1)
  else self.start - extent« + 1», extent ==>
  max(«min(step, largest)», -largest) ==> step
[mode] tests/indexing/test_negative_steps.py tests/indexing/test_compositions.py
torch_dml_ops/_indexing/negative_steps.py
  _setitem« or func is operator.setitem» ==>
  _getitem« or func is operator.getitem» ==>
  return func(*args, **«(kwargs or {})») ==> {}
  harmless_modes.add(NegativeSteps) ==> pass
  return mode if «function is None» else ==> True
  not callable(function)« or isinstance(function, type)» ==>
  return (yield from «_Resumed(function(*args, **kwargs))») ==> function(*args, **kwargs)
  return await «_Resumed(function(*args, **kwargs))» ==> function(*args, **kwargs)
  item = await «following» ==> following.resumed
  following.resumed = generator.athrow(error) ==> raise
  «return self._run(self.resumed.throw, *error)» ==> return self.resumed.throw(*error)
  beneath = max(private._len_torch_function_stack()« - self._entered», 0) ==>
  self._entered = «private._len_torch_function_stack() - beneath - 1» ==> 0
torch_dml_ops/_indexing/slices.py
  bool:\n    for entry in «index if isinstance(index, tuple) else (index,)» ==> (index,)
  return bool(step < 0) ==> return bool(step <= -2)
[building] tests/package/test_build.py -k 'one_sentence or order_of'
setup.py
  if list(map(«int», re.findall ==> str
  «setuptools_version, 77») ==> setuptools_version, 7
  «torch_version, 2, 11») ==> torch_version, 2, 9
  if «shutil.which(compiler()[0]) is None»: ==> False
  if «wanted not in ("auto", "0", "1")»: ==> False
  if home := os.environ.get(«"CUDA_HOME"») ==> "CUDA_PATH"
  if «not Path(home, "bin", "nvcc").exists()»: ==> False
  if «platform.system() != "Linux"»: ==> False
[descriptors] tests/directml/test_directml_descriptors.py tests/directml/test_directml_operator.py tests/directml/test_directml_refusals.py
torch_dml_ops/directml/operator.py
  if «size != 1 and »stride ==>
torch_dml_ops/directml/tensor_desc.py
  * self.data_type.size_in_bits // «32») * 4 ==> 8
  sum(«(size - 1)» * stride for size ==> size
  None if «tensor.is_contiguous()» else ==> False
  if len(buffer) < «total»: ==> total - 1
  buffer.storage_offset() % item != 0 ==> False
  if not 1 <= size «<= UINT_MAX»: ==>
  if places > «UINT_MAX»: ==> UINT_MAX + 1
  «total % 4 != 0» ==> False
  alignment & (alignment - 1) != 0 ==> False
  if stride == 0« and self.sizes[d] > 1» ==>
  «!= Overlap.NONE»: ==> == Overlap.SOME
[rules] tests/directml/test_directml_descriptors.py
torch_dml_ops/directml/_descriptors/rules.py
  count not in support.dimension_counts« and support.dimension_counts != _ANY_COUNT» ==>
  != first.data_type« and path != LENGTHS» ==>
  if value «<» least ==> <=
  if d != axis« and size != wanted» ==>
  if not 0 <= axis < «len(whole.sizes)»:\n        rule ==> len(whole.sizes) + 1
  elif not INT_MIN <= stride «<= INT_MAX» ==>
  if offset + size > «limit» ==> limit + 1
  not 1 <= size <= «steps» ==> steps + 1
  1 <= stride« <= UINT_MAX» ==>
  if offset + «(size - 1)» * stride ==> size
  if sum(sizes) «!=» whole ==> >
      for size in lengths.sizes[axis : axis + 1]:\n        if «size != 1» ==> False
[graph] tests/directml/test_directml_graph.py
torch_dml_ops/directml/_graphs/reinterpreted.py
  reshape(-1)«.contiguous()» ==>
  all(«size == 1 or »stride == other ==>
  count = «-(-self._bytes // self._item_size)» ==> self._bytes // self._item_size
  memory = tensor.«new_zeros» ==> new_empty
  tensor = tensor.narrow(d, 0, 1) ==> pass
torch_dml_ops/directml/_graphs/wiring.py
  if «first is not edge»: ==> False
  if «0 <= index < count»: ==> index < count
  if «size != total»: ==> False
  elif desc.flags & TensorFlags.OWNED_BY_DML: ==> elif False:
  self._cycle(«[*path][path[source] :]») ==> [*path]
  connected.add(edge.source) ==> pass
  if edge.source.node is «not None»:\n                self._into ==> None
[parsing] tests/directml/test_directml_models.py tests/directml/test_directml_json.py tests/directml/test_model_fields.py
torch_dml_ops/directml/_models/initial_values.py
  if isinstance(value, list) and «not value»: ==> False
  value.lower() in _WORDS:\n            return kind.type(_WORDS[«value.lower()»]) ==> 'nan'
  if «np.isfinite(number)»: ==> True
  limits.min <= value «<= limits.max» ==>
  if file.stat().st_size % «data_type.size_in_bytes»: ==> 1
  if array.size == 0: ==> if False:
  if data_type not in (None, found) ==> if data_type not in (None, found, data_type)
  (folder / relative«, Path.cwd() / relative») ==> ,
  source.replace("\\", "/") ==> source
torch_dml_ops/directml/_models/load_model.py
  if size < «end»: ==> end - 1
  Resource(«-(-size // 4) * 4», initial) ==> size
  if not isinstance(tensors, TensorDesc) and len({tensor.flags for tensor in tensors}) > «1» ==> 9
  if input_path is not None« and not file.exists()»: ==>
[ONNX export] tests/onnx/test_onnx_export.py
torch_dml_ops/onnx/_export.py
  «(count - 1) * stride + 1») ==> count * stride
  stride == 1 and «_equal(start, 0)» and ==> True
  - «1»\n            if not isinstance(end, int) ==> 0
  elif end < 0:\n                end = «BEFORE_FIRST» ==> end
  end - «_size(input, d)» ==> 0
  turned = [d for d, stride in enumerate(window_strides) if stride < «0»] ==> -1
  before, after = «offset + window - extent», size ==> offset
  too_many = max(«gap - after», 0) ==> gap
  after = max(«after - gap», 0) ==> after
  len(split_sizes) == 1 ==> False
  d != axis and not «_equal(n, 1)» ==> False
  for n in («1», size) ==> 0
  time_axis=time, batch_axis=«1 - time» ==> 0
[ONNX import] tests/onnx/test_onnx_import.py tests/onnx/test_onnx_refusals.py tests/onnx/test_onnx_files.py tests/onnx/test_onnx2torch.py tests/onnx/test_onnx_resize.py -k 'not (every_model or networks or exported or ships or compile or dynamic)'
torch_dml_ops/onnx/_importer/inputs.py
  if not -rank <= axis «< rank»: ==> <= rank
  if «d in chosen»: ==> False
torch_dml_ops/onnx/_importer/arithmetic.py
  «_ordered(A), _ordered(B)») ==> A, B  ## tests/onnx/test_onnx_schemas.py -k Less
torch_dml_ops/onnx/_importer/moving.py
  start = larger(start, -sizes[d]) ==> pass  ## tests/onnx/test_random_graphs.py -k Slice
  if must_divide and «known_true(size % num_outputs != 0)» ==> False
  larger(«smaller(each, size - k * each)», 0) for ==> size - k * each
  if all(«known_true(piece > 0)» for piece ==> True
  each = («size + num_outputs - 1») // num_outputs ==> size
  if size == 0 and «allowzero != 1» ==> True  ## tests/onnx/test_random_graphs.py -k Reshape
  d = «axis if axis == rank else »axis_of ==>  ## tests/onnx/test_random_graphs.py -k Flatten
  at = 2 * («data.dim() - 1 - d») ==> d
  data.shape[d] + «min(before, 0) + min(after, 0)» < 0 ==> before + after
  «larger(more, 0) // 2 - larger(-more, 0) // 2» ==> more // 2
  for d in «sorted(axes_of("Unsqueeze: axes", axes, data.dim() + len(axes)))» ==> axes_of("Unsqueeze: axes", axes, data.dim() + len(axes))
torch_dml_ops/onnx/_importer/gather_scatter.py
  torch.where(«indices < 0», indices + size ==> indices > 0
  if «data.dtype in HALVES»:\n            return data[ ==> False
  if «data.dtype in HALVES»:\n            return torch.index_put ==> False
  one = «indices.dim() == 1» ==> False  ## tests/onnx/test_onnx_import.py -k gathering_by_one
torch_dml_ops/onnx/_importer/resize.py
  x.floor() - 0.5 «> MIDDLE») ==> > 0
  x.floor() - 0.5 «>= -MIDDLE») ==> >= 0
  "ceil" if factor «< 1» else ==> < 0
  half += «2 ** max(bits - 25, 0)» * ==> 1
  (size * factor) «+ 0.5») for size ==>
  torch.where(«by == 1», at ==> by == 0  ## tests/onnx/test_onnx_resize.py
  «many = any(known_true(n > MOST_IN_FLOAT32) for n in (size, x.shape[d]))» ==> many = False  ## tests/onnx/test_onnx_resize.py -m '' -k does_not_tell_apart
  x.unsqueeze(0).index_select(1, index).squeeze(0) ==> x.index_select(d, index)
  .clamp(0, «x.shape[d] - 1») ==> x.shape[d]
torch_dml_ops/onnx/_importer/graph.py
  if «value not in self._registered»: ==> True
  while hasattr(self._root, name)« or hasattr(_EMPTY, name)»: ==>  ## tests/onnx/test_onnx_import.py -k names_of_python
torch_dml_ops/onnx/_importer/operators.py
  «tensor.CopyFrom(TensorProto(data_type=tensor.data_type, dims=[0]))» ==> pass  ## tests/onnx/test_random_graphs.py -k a_graph
torch_dml_ops/onnx/_importer/files.py
  if «default.name not in given»: ==> True  ## tests/onnx/test_random_graphs.py -k a_graph
  for node in _nodes_in(result.graph.node«, *(function.node for function in result.functions)») ==>  ## tests/onnx/test_onnx_import.py -k default_of_a_function
torch_dml_ops/onnx/_onnx2torch.py
  «not (op == "Resize" and arguments.get("mode", "nearest") == "nearest")» ==> True
  «if isinstance(value, Tensor)»: ==> if False
torch_dml_ops/onnx/_importer/sizes.py
  if b < 0:\n        «a, b = -a, -b» ==> pass  ## tests/onnx/test_onnx_schemas.py -k Div
  return a - b * «_divide(a, b)» ==> (a // b)  ## tests/onnx/test_onnx_schemas.py -k Mod
  for length in lengths if «length != 1») ==> False  ## tests/onnx/test_onnx_schemas.py -k Add
  «larger(b - a, 0)», 1) ==> b - a  ## tests/onnx/test_random_graphs.py -k Less
  return «y + condition * (x - y)» ==> x  ## tests/onnx/test_onnx_import.py -k 'torch_exports and expand'
[DTensor plans] tests/distributed/test_distributed.py::test_placements_and_plans tests/distributed/test_distributed.py
torch_dml_ops/distributed/_plans.py
  if d in moved« and d not in exchanged» else ==>
  if count <= «0»: ==> 1
  * run.target_step - «parts[axis][0]» ==> 0
  moved = {axis} if len(sizes) > «1» else ==> 9
  starts = [sum(sizes[:«k»]) ==> k + 1
  lengths_placed = tuple(«Replicate() if p.is_partial() else p» for ==> p
  strides = [«dense_strides(name, sizes, like)» for ==> dense_strides(name, sizes, like[:1])
  key += «t._spec, »local.shape ==>
  if placements «!=» like.placements ==> ==
[DTensor exchange] tests/distributed/test_distributed.py
torch_dml_ops/_operators/definitions.py
  [«t if isinstance(t, type(like)) else like.new_zeros(t.shape)» for ==> t
torch_dml_ops/distributed/_exchange.py
  else self.offset + self.size - «1» ==> 0
  self[3] == size and («self[2] == 1 or size <= 1») ==> True
  return Span(«min(start, start + far)», ==> start
  self.is_local = «not any(leaving(*layout))» ==> True
  self.sent = [t for t in sent if t.peer «!=» here] ==> ==
  start = run.source_start + «t.first» * run.source_step ==> 0
  * run.source_step - «begin» ==> 0
  permute(order).contiguous().permute(«[order.index(d) for d in range(len(order))]») ==> order
torch_dml_ops/distributed/_shards.py
  chunk = «-(-size // ranks)»\n    return ==> size // ranks
  return «max(first, 0)», min ==> first
  start, step, begin, end = -start, -step, «1 - end», 1 - begin ==> -end
  return max(first, 0), «min(last, count)» ==> last
"""


class Row(NamedTuple):
    area: str
    tests: str
    file: str
    text: str
    becomes: str
    why_equal: str


def rows_of(table: str) -> Iterator[Row]:
    area = tests = file = ""
    for line in table.strip("\n").split("\n"):
        if line.startswith("["):
            area, _, tests = line[1:].partition("] ")
        elif row := re.fullmatch(r"  (.+?) ==>(?: (?! ## | ~~ ))?(.*?)(?:  ## (.+?))?(?:  ~~ (.+))?", line):
            text, becomes, own, why_equal = row.groups("")
            own_tests = OWN_TESTS.get(own, own) or tests
            yield Row(area, own_tests, file, text.replace("\\n", "\n"), becomes.replace("\\n", "\n"), why_equal)
        else:
            file = line


ROWS = [*rows_of(TABLE)]
