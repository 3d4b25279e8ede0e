"""Faults of `make mutants SAMPLE=…` that nothing could notice: by file, what becomes what, as in mutant_table.py, and why.

A text that is a whole line is meant in each line that is the same; others are in one line alone.
"""

# ruff: noqa: E501  (rows of sources)

from mutant_table import rows_of

EQUIVALENT_CHANGES = [
    *rows_of(r"""
csrc/kernels/affine_copy.h
  const «int64_t» parts = ==> int32_t  ~~ an item has at most 16 bytes
csrc/kernels/cpu/affine_copy.cpp
  are_segments(dims.«last»(2)) && writer ==> first  ~~ it chooses the chunks' size, which no result depends on
  if («is_transposition(dims) ||» ==>  ~~ it chooses the chunks' size, which no result depends on
  | dims.back().«dst_stride» != 1) return ==> src_stride  ~~ it chooses among ways with equal results
  «writer_.fence()»; ==>  ~~ what joins the threads orders these stores too
  const auto count = «int64_t»(copies. ==> int32_t  ~~ a chunk has fewer items
csrc/kernels/cpu/chunk_writer.h
  ChunkWriter(«int64_t» item_size ==> int32_t  ~~ an item has at most 16 bytes
  !contiguous_source || gap «<» 0 ==> ==  ~~ a hint to the processor
  src, bytes, 0, «0»}; ==> (0-1)  ~~ there is one row
  ::min(n, std::«max»<int64_t ==> min  ~~ so many rows are staged at once, with equal results
  (end - begin) «* each »< kMinBytes ==>  ~~ it chooses among ways with equal results
  if (whole <«=» 0) return ==>  ~~ where nothing is whole, nothing is stored, and what is kept is copied to where it is
  return «true»; ==> false  ~~ it chooses among ways with equal results
  «»aligned.include(segment.bytes ==> continue;   ~~ it chooses among ways with equal results
  return «LineSharing::kAcrossRows»; ==> {}  ~~ it chooses among ways with equal results
csrc/kernels/cpu/huge_pages.cpp
  first + page - 1) «/» page * page ==> -  ~~ the system refuses the advice, and nothing is touched beforehand: slower, with the same result
  , last = first «+» uintptr_t ==> /  ~~ the system refuses the advice, and nothing is touched beforehand: slower, with the same result
  * kHuge - 1) = «0»; ==> -1  ~~ the byte is written over
csrc/kernels/cpu/inner_loops/copy.inl
  segment.bytes, «aligns(segment.bytes),» batch.prefetch ==>  ~~ it chooses among ways with equal results
  for («int64_t» rows = t ==> int32_t  ~~ a chunk has fewer rows
  «if (ahead) prefetch_row(src + at + ahead, 4 * kVectorBytes);» ==> /*if (ahead) prefetch_row(src + at + ahead, 4 * kVectorBytes);*/  ~~ a hint to the processor
  case «5»: ==> (5+1)  ~~ segments of 17 to 32 bytes go another way, with the same bytes, and none is wider
  kVectorBytes - «int64_t»(reinterpret_cast ==> int32_t  ~~ an offset within a vector
csrc/kernels/cpu/inner_loops/dilate.inl
  for («int64_t» i = 0; i < n; ==> int32_t  ~~ a chunk has fewer items
csrc/kernels/cpu/inner_loops/gather.inl
  «»} ==> continue;   ~~ the loop's body ends there
csrc/kernels/cpu/inner_loops/non_temporal.inl
  for («int64_t» i = from ==> int32_t  ~~ a chunk has fewer items
  = (kSrcStride «>» 0)) { ==> !=  ~~ the lines of a row in another order
  if («head &&» before) ==>  ~~ the line before is written once more, with what it has
  «case -4:» ==> /*case -4:*/  ~~ it chooses among ways with equal results
  for («int64_t» k = 0; k < batch ==> int32_t  ~~ a chunk has fewer items
  for («int64_t» row = batch ==> int32_t  ~~ a chunk has fewer items
csrc/kernels/cpu/inner_loops/reverse.inl
  if («t.prefetch_rows») ==> 1==1  ~~ where no row follows, an address is prefetched that nobody reads
csrc/kernels/cpu/inner_loops/vectors.inl
  kShufflesBytes = «kVectorBytes == 32»; ==> false  ~~ it chooses among ways with equal results
  «int64_t» i = 0; ==> int32_t  ~~ a chunk has fewer items
csrc/kernels/cpu/reverse_copy.cpp
  «int64_t» panel_columns_ ==> int32_t  ~~ a panel has fewer columns
  kCacheLineBytes) && «!»panel_columns_ ==>  ~~ it chooses among ways with equal results
csrc/kernels/cpu/tuning.cpp
  «int64_t» amd_l3_bytes ==> int32_t  ~~ no cache has 2 GB
  «__builtin_cpu_init()»; ==>  ~~ the compiler's own constructor has done so before any of ours
csrc/kernels/cuda/affine_copy.cu
  const «int64_t» src_step = kStep ==> int32_t  ~~ offsets of lines fit 32 bits
  «if constexpr (sizeof(Item) < 4)» ==> /*if constexpr (sizeof(Item) < 4)*/  ~~ no others are moved that way
  «else» ==> /*else*/  ~~ the branches before it return
csrc/kernels/cuda/copy_loads.h
  kLoaded = kVecSize «/» 2; ==> *  ~~ what is loaded beyond the row is left out again
csrc/kernels/cuda/copy_params.h
  if («order.same_chunks») return ==> 0==1  ~~ it chooses among ways with equal results
csrc/kernels/cuda/reverse_copy.cu
  if (kVecSize «==» 1 || params.vector_loads ==> <  ~~ it chooses among ways with equal results
  auto bytes = [&](«int64_t» columns) { return columns ==> int32_t  ~~ a panel has fewer columns
  «i = size; // with nothing to store; a compiler takes stores under a condition apart with 64-bit offsets» ==> /*i = size; // with nothing to store; a compiler takes stores under a condition apart with 64-bit offsets*/  ~~ vectors that are left are stored afterwards, and those beyond the row store nothing
  threads_for((per_row «+» vecs_per_thread ==> /  ~~ it chooses how many threads share a row
  bytes(columns) >«» room(columns ==> =  ~~ it chooses among ways with equal results
  std::bit_ceil(«uint64_t»(n))); } ==> uint32_t  ~~ rows are shared out otherwise, with the same result
csrc/kernels/cuda/vectors.h
  if («sizeof(Item) < 16 &&» offset_ ==>  ~~ the offset of items of 16 bytes is 0
csrc/kernels/plan.h
  SmallVector<Dim, «4»>; ==> 1  ~~ what does not fit is allocated: slower
  «int64_t» value() ==> int32_t  ~~ an alignment is at most 16 bytes
  return std::max<«int64_t»>(vec.value ==> int32_t  ~~ a vector has at most 64 bytes
  remove_if(dims.«begin»(), dims ==> end  ~~ it chooses among ways with equal results
csrc/ops/layout.cpp
  > strides(sizes«.size()»); ==>  ~~ each is set in the loop
csrc/ops/overlap.cpp
  return {«Overlap::kNone, 0, 0»}; ==>  ~~ the same value
  views[a].address «<» views[b ==> >  ~~ all views are one group then, in which every pair is found too
  .insert(terms.«end»(), b.terms ==> begin  ~~ the terms of a sum in another order
  «if (parts.size() == 1) return compare_each_pair(group);» ==> /*if (parts.size() == 1) return compare_each_pair(group);*/  ~~ it chooses among ways with equal results
csrc/ops/windows.cpp
  Sizes most(sizes«.size()»); ==>  ~~ all of it is written
csrc/python/fast_calls.cpp
  aoti_torch_grad_mode_is_enabled() && «requires_grad(arguments[0]»)) { ==> (1==1  ~~ what records a call leaves out what needs no gradient, and takes longer
  Py_ssize_t k = 0; k «<» PyTuple_Size ==> !=  ~~ the count goes up by one
csrc/python/plain.inl
  kMostArguments = «8»; // of an ==> (8-1)  ~~ no operator has as many
  size_t count = «0»; ==> -1  ~~ torch sets it
  Py_ssize_t> known = -«1»; ==> (1-1)  ~~ the count is never 0
torch_dml_ops/__main__.py
  the examples of «model files,» or write one ==> mFalse  ~~ a word that only people read
torch_dml_ops/_compile/rule.py
  «»else: ==> continue;   ~~ the loop's body ends there
  1" else 32 << «20» ==> (20+1)  ~~ a bound of tuning
  "«the result is reduced» and never ==> tTrue  ~~ a word that only people read
  .arguments[2] «!=» self.innermost ==> <  ~~ no axis is larger than the innermost
torch_dml_ops/_operators/definitions.py
  Numbers = Sequence[«int»] # some ==> 0  ~~ annotations alone have the name, and they are not evaluated
  «@staticmethod» ==> pass  ~~ it is called on the class alone
  ClassVar[Callable[«..., tuple[Any, ...]»]] ==> tuple[Any, ...], ...  ~~ an annotation that is not evaluated
  «@staticmethod» ==>  ~~ it is called on the class alone
torch_dml_ops/_torch/private.py
  "the sizes and strides «in» it" ==> not in  ~~ a word that only people read
  compared; torch 2.«11» lacks it ==> (11+1)  ~~ a word that only people read
  formula becomes, «and» what it ==> or  ~~ a word that only people read
  Pointwise.create": "«a formula as a new buffer»", ==>  ~~ a word that only people read
torch_dml_ops/directml/_descriptors/rules.py
  «Rule = Sequence[str | JsonPath]» ==> Rule = Sequence[0]  ~~ annotations alone have the name, and they are not evaluated
  «»yield from same_sizes(LENGTHS ==> continue;   ~~ the loop's body ends there
torch_dml_ops/directml/_models/initial_values.py
  «@cache» ==> pass  ~~ it only takes longer
  def write(«self,» memory: ==>  ~~ a protocol, which only type checkers read
  «@property» ==> pass  ~~ a protocol is for type checkers
  «Bytes = NDArray[np.uint8]» ==> pass  ~~ annotations alone have the name, and they are not evaluated
torch_dml_ops/directml/errors.py
  «from typing import Any» ==> pass  ~~ annotations alone have the name, and they are not evaluated
torch_dml_ops/directml/graph.py
  «from collections.abc import Iterator, Sequence» ==> pass  ~~ annotations alone have the name, and they are not evaluated
  outputs: tuple[«TensorDesc,» ...] ==>  ~~ an annotation that is not evaluated
torch_dml_ops/directml/model.py
  if name «!=» "path" and ==> <  ~~ of the three names, the same two are meant
torch_dml_ops/directml/tensor_desc.py
  if len(numbers) <= «64»: ==> 1  ~~ the same product, in another order
  strides) if stride «=»= 0 and self ==> <  ~~ negative strides were refused before
  JsonPath = (), «*, »written: ==>  ~~ it is called by names alone
torch_dml_ops/distributed/_exchange.py
  result = blocks[keys[«0»]] ==> (0-1)  ~~ there is one
torch_dml_ops/distributed/_shards.py
  if step «<» 0: # the same walk ==> <=  ~~ no step is 0
torch_dml_ops/distributed/_traffic.py
  item = tensors[«0»].element_size() ==> -1  ~~ where anything is exchanged, all have one dtype
torch_dml_ops/distributed/_plans.py
  steps: list«[Step]» # what is ==>  ~~ an annotation that is not evaluated
torch_dml_ops/onnx/_importer/inputs.py
  in zip(reversed(«shape), reversed(other»), strict ==> other), reversed(shape  ~~ it asks the same of both
  LISTS = {"«scales": (torch.float32,), "condition": (torch.bool»,)} ==> condition": (torch.bool,), "scales": (torch.float32  ~~ in another order
  def larger(«a: int, b»: int) - ==> b: int, a  ~~ the larger one is the same in either order
  def «smaller(a: int, b»: int) - ==> smaller ( b: int,a  ~~ the smaller one is the same in either order
  for value in (*«args, *kwargs.values()»): ==> kwargs.values(), *args  ~~ of two proxies, torch.fx takes either for the same graph
torch_dml_ops/onnx/_importer/moving.py
  def depth_to_space(input: Tensor, «*, blocksize: int» ==> blocksize: int, *  ~~ it is called by names alone
  data: Tensor, «*, »perm: Sequence ==>  ~~ its only caller gives it by name
  space_to_depth(input: Tensor«, *, blocksize: int», mode: str ==>  , blocksize: int, *  ~~ it is called by names alone
torch_dml_ops/onnx/_importer/sizes.py
  other not in («1, length») for ==> length, 1  ~~ in another order
torch_dml_ops/directml/_models/load_model.py
  dispatchables: dict[str«, Any»] ==>  ~~ what a dictionary holds is not read of its type
csrc/kernels/cuda/access_pattern.h
  vec.include(copy.dims.size() «==» 1 ==> <=  ~~ a copy has at least one dimension here
  kThreadsPerBlock «*» kItemsPerThread ==> %  ~~ it chooses among ways with equal results
  vec.value() == «4» * launches ==> (4+1)  ~~ it chooses among ways with equal results
torch_dml_ops/__init__.py
  for _name in («"index", *ops.__all__»): ==> *ops.__all__, "index"  ~~ in another order
torch_dml_ops/viz/_picture.py
  axis: int = «-»1 ==>  ~~ a panel with lengths says along which axis they are
torch_dml_ops/directml/_descriptors/base.py
  _OTHER_KINDS = {"«onnx": "an ONNX model", "hlsl": "an HLSL shader»", "dmlserializedgraph ==> hlsl": "an HLSL shader", "onnx": "an ONNX model  ~~ a dictionary that is only looked up
csrc/kernels/cpu/engine.h
  constexpr «int64_t» kCacheLineBytes ==> int32_t  ~~ a small constant
torch_dml_ops/onnx/_importer/gather_scatter.py
  HALVES = («torch.float16, torch.bfloat16») ==>  torch.bfloat16,torch.float16  ~~ which comes first makes no difference
  updates: Tensor, «*, »reduction ==>  ~~ ONNX's checker refuses a fourth input before
  «raise» ==> pass  ~~ torch raises IndexError for an index out of range alone, which is refused before
csrc/ops/check.cpp
  if («int64_t»(k) != except && given ==> int32_t  ~~ there are fewer tensors
  «if (number >= int32_t(ScalarType::Undefined)) return "dtype number " + std::to_string(number); // of a newer torch» ==> /*if (number >= int32_t(ScalarType::Undefined)) return "dtype number " + std::to_string(number); // of a newer torch*/  ~~ no dtype of this torch has such a number
csrc/kernels/cpu/inner_loops.cpp
  is_supported() && («level.is_fast() || named»)) chosen ==> 1==1  ~~ it chooses among ways with equal results
csrc/ops/execute_cpu.cpp
  «cpu::prefault_huge_pages(result.mutable_data(), bytes, torch_threads)»; ==>  ~~ it only takes longer
  pair[1] = «int64_t»(found.first ==> int32_t  ~~ there are fewer views
torch_dml_ops/directml/_schema/structs.py
  «@dataclass(frozen=True)» ==> pass  ~~ whatever inherits it is a dataclass, and it has no fields
torch_dml_ops/directml/_schema/json_documents.py
  str: "a string"«, list: "an array", dict: "an object"»} ==>  , dict: "an object", list: "an array"  ~~ a dictionary that is only looked up
torch_dml_ops/onnx/_importer/graph.py
  if op «==» "Cast": ==> <=  ~~ the one operator that comes before is of sizes alone
csrc/kernels/cpu/inner_loops/strided.inl
  kMostBytes = 12 «*» kVectorBytes ==> -  ~~ it chooses among ways with equal results
  for («int64_t» r = 0; r < t.rows ==> int32_t  ~~ a chunk has fewer rows
torch_dml_ops/directml/_graphs/wiring.py
  «assert source is not None» ==> pass  ~~ it tells mypy what holds
csrc/kernels/cpu/affine_copy.cpp
  return copies.size() > 1 «&&» items * item_size ==> ||  ~~ it chooses among ways with equal results
csrc/kernels/cpu/reverse_copy.cpp
  if (panel_bytes(columns) «<=» tuning.panel_bytes) panel_columns_ ==> <  ~~ it chooses the panels' size, which no result depends on
csrc/kernels/cpu/inner_loops/copy.inl
  const auto move = [&](«int64_t» at) { ==> int32_t  ~~ a row of a chunk has fewer bytes
  «int64_t» at = 0; ==> int32_t  ~~ a row of a chunk has fewer bytes
csrc/kernels/cpu/inner_loops/non_temporal.inl
  const auto copy_row = ascending ? copy_strided_segment_non_temporal<T, kSrcStride, «true»> ==> false  ~~ it chooses among ways with equal results
csrc/kernels/reverse_copy.h
  const «int64_t» parts = copy.item_size ==> int32_t  ~~ an item has at most 16 bytes
csrc/kernels/cuda/reverse_copy.cu
  threads_for((per_row + vecs_per_thread «-» 1) ==> %  ~~ it chooses how many threads share a row
csrc/kernels/cuda/access_pattern.h
  kMinSize = 8, kSectorBytes = «32»; ==> 0  ~~ it chooses among ways with equal results
csrc/kernels/cuda/dims.h
  int64_t dst = «0», src = 0; ==> 1  ~~ the bound has a margin
csrc/kernels/cuda/interleaved.h
  kAtOnce = kPerWord > 1 ? 1 : «2»; ==> 1  ~~ it chooses how many a thread moves
csrc/ops/layout.cpp
  if (error «!=» TORCH_SUCCESS) { ==> >  ~~ no code is negative
csrc/ops/execute_cpu.cpp
  «cpu::prefault_huge_pages(result.mutable_data(), bytes, torch_threads);» ==> /*cpu::prefault_huge_pages(result.mutable_data(), bytes, torch_threads);*/  ~~ it only takes longer
csrc/python/index.inl
  «»} else if (PyLong_CheckExact(entry) != 0) { ==> continue;   ~~ the loop's body ends there
torch_dml_ops/_torch/private.py
  "fusing: compiled« functions call the kernels,» and a warning ==> True  ~~ a word that only people read
  return forward_ad._current_level «>=» 0 ==> ==  ~~ torch has one level of forward mode
torch_dml_ops/directml/operator.py
torch_dml_ops/directml/operator_descs.py
  return {«"kind": _COUNT, "counts": name»} ==>  "counts": name,"kind": _COUNT  ~~ a dictionary that is only looked up
torch_dml_ops/onnx/_importer/resize.py
csrc/kernels/cpu/affine_copy.cpp
  «batch.row_begin = begin;» ==> /*batch.row_begin = begin;*/  ~~ the rows before are copied once more, with the same bytes
  «»const int64_t n = numel(inner); ==> break;   ~~ it chooses among ways with equal results
csrc/kernels/cpu/inner_loops/non_temporal.inl
  batch.prefetch_rows * segment.«src»_row_stride); ==> dst  ~~ a hint to the processor
csrc/kernels/cpu/inner_loops/vectors.inl
  __builtin_prefetch(row + k«, 0, 3»); ==>  , 3, 0  ~~ a hint to the processor
csrc/kernels/cpu/chunk_writer.h
  int64_t bytes = «0», least = first.bytes; ==> 1  ~~ it chooses among ways with equal results
csrc/kernels/cuda/copy_params.h
  all += batch.copy[«c»].chunks; ==> 0  ~~ it chooses an order of the chunks
csrc/kernels/cuda/vectors.h
  uint32_t(std::max«(first, 0»)); ==>  ( 0,first  ~~ the larger of two
  Offset first = «0»; ==> (0-1)  ~~ it is that of none
csrc/ops/overlap.cpp
  __int128 length = bytes.end()« - bytes.begin»; ==>  ~~ parts are larger, whose pairs are compared
  Overlap overlap«(const Bytes& a, const Bytes& b») { ==>  ( const Bytes& b,const Bytes& a  ~~ neither comes first
  last < common.size(); «++»last) { ==> --  ~~ parts are larger, whose pairs are compared
csrc/ops/tensor.h
  return «int64_t»(aoti_torch_dtype_element_size ==> int32_t  ~~ an item has at most 16 bytes
csrc/python/fast_calls.cpp
  «: 0;» ==> : -1;  ~~ neither is a number of tensors that has a way of its own
csrc/python/index.inl
  bool read(const int64_t* sizes, «int64_t» rank ==> int32_t  ~~ no tensor has as many dimensions
torch_dml_ops/_indexing/index.py
  «Part = Walk | int | Tensor | None» ==> pass  ~~ annotations alone have the name, and they are not evaluated
torch_dml_ops/_indexing/slices.py
  return is_undecided(index + size «>=» least) if ==> >  ~~ it chooses among ways with equal results
  max(«min(step, largest), -largest») ==>  -largest,min(step, largest)  ~~ the largest is the same
  yield from («entry.start, entry.stop», entry.step) ==>  entry.stop,entry.start  ~~ which of several comes first does not matter
torch_dml_ops/_operators/without_kernels.py
  every_tensor(name, *«(t for _, t in signature.named_tensors(arguments)), *out») ==> out, *(t for _, t in signature.named_tensors(arguments))  ~~ whether there is one
torch_dml_ops/directml/_schema/structs.py
  «@dataclass(frozen=True)» ==>  ~~ it has no fields, and each of its classes is a dataclass itself
torch_dml_ops/onnx/_importer/graph.py
  for kind in («given, 0 if exact else to»): ==> 0 if exact else to, given  ~~ either raises the same sentence
  "Split" else node.output[«0»]) ==> (0-1)  ~~ but for Split, a node has one output
  TensorProto, «TypeProto, »ValueInfoProto ==>  ~~ annotations alone have the name, and they are not evaluated
torch_dml_ops/onnx/_importer/operators.py
  numbers=("start", "«limit", "delta»") ==> delta", "limit  ~~ a tuple that is only looked in
torch_dml_ops/onnx/_importer/sizes.py
  «Sizes = int | tuple[int, ...]» ==> Sizes = int | tuple[ ...]  ~~ annotations alone have the name, and they are not evaluated
  def and_(«A: Sizes, B»: Sizes) ==> B: Sizes, A  ~~ it is the same in either order
  beyond = «isinstance(result, int) and »(known_true ==>  ~~ of a symbol, a guard that always holds
torch_dml_ops/viz/_picture.py
  "fontsize": points, «"usetex": False, "parse_math": False»} ==> "parse_math": False, "usetex": False  ~~ a dictionary
csrc/kernels/cpu/inner_loops/transpose.inl
  template <class T, «int64_t» kBytes> ==> int32_t  ~~ a vector has fewer
  void transpose_matrix(T* dst, «int64_t» dst_stride ==> int32_t  ~~ the rows of a buffer are that far apart
csrc/kernels/cpu/inner_loops/reverse.inl
  write_reversed(const Panel& panel, const T* transposed, «int64_t» stride) ==> int32_t  ~~ the rows of a buffer are that far apart
csrc/kernels/cuda/copy_loads.h
  «vector_.set_zero();» ==> /*vector_.set_zero();*/  ~~ it has held zeros since it was made
""")
]
