# ruff: noqa: E501  (lines of sources)
"""Faults of `make mutants SAMPLE=…` that nothing could notice: by file, the line, what becomes of it, and why."""

EQUIVALENT_CHANGES: dict[str, dict[tuple[str, str], str]] = {
    "csrc/kernels/affine_copy.h": {
        (
            "const int64_t parts = plan.item_size / aligned.value();",
            "const int32_t parts = plan.item_size / aligned.value();",
        ): "an item has at most 16 bytes",
    },
    "csrc/kernels/cpu/affine_copy.cpp": {
        (
            "(last && are_segments(dims.last(2)) && writer.bytes(dims.back().size) <= tuning.chunk_bytes))",
            "(last && are_segments(dims.first(2)) && writer.bytes(dims.back().size) <= tuning.chunk_bytes))",
        ): "it chooses the chunks' size, which no result depends on",
        ("if (is_transposition(dims) ||", "if ("): "it chooses the chunks' size, which no result depends on",
        (
            "if (dims.size() < 3 || dims.back().dst_stride != 1) return;",
            "if (dims.size() < 3 || dims.back().src_stride != 1) return;",
        ): "it chooses among ways with equal results",
        ("writer_.fence();", ";"): "what joins the threads orders these stores too",
        (
            "const auto count = int64_t(copies.size());",
            "const auto count = int32_t(copies.size());",
        ): "a chunk has fewer items",
    },
    "csrc/kernels/cpu/chunk_writer.h": {
        (
            "const Segment segment{dst, src, bytes, 0, 0};",
            "const Segment segment{dst, src, bytes, 0, (0-1)};",
        ): "there is one row",
        (
            "const int64_t some = std::min(n, std::max<int64_t>(tuning.staging_bytes / bytes(count), 1));",
            "const int64_t some = std::min(n, std::min<int64_t>(tuning.staging_bytes / bytes(count), 1));",
        ): "so many rows are staged at once, with equal results",
        (
            "if (!non_temporal_ || (end - begin) * each < kMinBytes || is_transposition(dims))",
            "if (!non_temporal_ || (end - begin) < kMinBytes || is_transposition(dims))",
        ): "it chooses among ways with equal results",
        (
            "if (whole <= 0) return;",
            "if (whole < 0) return;",
        ): "where nothing is whole, nothing is stored, and what is kept is copied to where it is",
        ("return true;", "return false;"): "it chooses among ways with equal results",
        (
            "aligned.include(segment.bytes);",
            "continue; aligned.include(segment.bytes);",
        ): "it chooses among ways with equal results",
        ("return LineSharing::kAcrossRows;", "return {};"): "it chooses among ways with equal results",
    },
    "csrc/kernels/cpu/huge_pages.cpp": {
        (
            "const uintptr_t begin = (first + page - 1) / page * page, end = last / page * page;",
            "const uintptr_t begin = (first + page - 1) - page * page, end = last / page * page;",
        ): "the system refuses the advice, and nothing is touched beforehand: slower, with the same result",
        (
            "const auto first = reinterpret_cast<uintptr_t>(memory), last = first + uintptr_t(bytes);",
            "const auto first = reinterpret_cast<uintptr_t>(memory), last = first / uintptr_t(bytes);",
        ): "the system refuses the advice, and nothing is touched beforehand: slower, with the same result",
        (
            "*reinterpret_cast<volatile char*>((begin_huge + uintptr_t(k) + 1) * kHuge - 1) = 0;",
            "*reinterpret_cast<volatile char*>((begin_huge + uintptr_t(k) + 1) * kHuge - 1) = -1;",
        ): "the byte is written over",
    },
    "csrc/kernels/cpu/inner_loops/copy.inl": {
        (
            "for (int64_t rows = t.rows; rows > 0; --rows) {",
            "for (int32_t rows = t.rows; rows > 0; --rows) {",
        ): "a chunk has fewer rows",
        (
            "if (ahead) prefetch_row(src + at + ahead, 4 * kVectorBytes);",
            "/*if (ahead) prefetch_row(src + at + ahead, 4 * kVectorBytes);*/",
        ): "a hint to the processor",
        ("case 5:", "case (5+1):"): "segments of 17 to 32 bytes go another way, with the same bytes, and none is wider",
        (
            "at = kVectorBytes - int64_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);",
            "at = kVectorBytes - int32_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);",
        ): "an offset within a vector",
    },
    "csrc/kernels/cpu/inner_loops/dilate.inl": {
        (
            "for (int64_t i = 0; i < n; ++i) dst[i * step] = src[i * src_stride];",
            "for (int32_t i = 0; i < n; ++i) dst[i * step] = src[i * src_stride];",
        ): "a chunk has fewer items",
    },
    "csrc/kernels/cpu/inner_loops/gather.inl": {
        ("}", "continue; }"): "the loop's body ends there",
    },
    "csrc/kernels/cpu/inner_loops/non_temporal.inl": {
        (
            "for (int64_t i = from; i < to; ++i) dst[i] = src[i * kSrcStride];",
            "for (int32_t i = from; i < to; ++i) dst[i] = src[i * kSrcStride];",
        ): "a chunk has fewer items",
        (
            "if (kAscending == (kSrcStride > 0)) {",
            "if (kAscending == (kSrcStride != 0)) {",
        ): "the lines of a row in another order",
        ("if (head && before) {", "if ( before) {"): "the line before is written once more, with what it has",
        ("case -4:", "/*case -4:*/"): "it chooses among ways with equal results",
        (
            "for (int64_t k = 0; k < batch.count; ++k) {",
            "for (int32_t k = 0; k < batch.count; ++k) {",
        ): "a chunk has fewer items",
        (
            "for (int64_t row = batch.row_begin; row < batch.row_end; ++row)",
            "for (int32_t row = batch.row_begin; row < batch.row_end; ++row)",
        ): "a chunk has fewer items",
    },
    "csrc/kernels/cpu/inner_loops/reverse.inl": {
        ("if (t.prefetch_rows)", "if (1==1)"): "where no row follows, an address is prefetched that nobody reads",
    },
    "csrc/kernels/cpu/inner_loops/vectors.inl": {
        ("int64_t i = 0;", "int32_t i = 0;"): "a chunk has fewer items",
    },
    "csrc/kernels/cpu/reverse_copy.cpp": {
        ("int64_t panel_columns_;", "int32_t panel_columns_;"): "a panel has fewer columns",
        (
            "for (int64_t columns = kMaxPanelColumns; columns >= writer_.items(kCacheLineBytes) && !panel_columns_; columns /= 2)",
            "for (int64_t columns = kMaxPanelColumns; columns >= writer_.items(kCacheLineBytes) && panel_columns_; columns /= 2)",
        ): "it chooses among ways with equal results",
    },
    "csrc/kernels/cpu/tuning.cpp": {
        (
            "int64_t amd_l3_bytes() {",
            "int32_t amd_l3_bytes() {",
        ): "no cache has 2 GB",
        ("__builtin_cpu_init();", ";"): "the compiler's own constructor has done so before any of ours",
    },
    "csrc/kernels/cuda/affine_copy.cu": {
        (
            "if constexpr (sizeof(Item) < 4)",
            "/*if constexpr (sizeof(Item) < 4)*/",
        ): "no others are moved that way",
        (
            "batch.same_chunks = batch.same_chunks && batch.chunks == batch.copies * chunks;",
            "batch.same_chunks = batch.same_chunks && batch.chunks == batch.copies;",
        ): "it chooses among ways with equal results",
        ("else", "/*else*/"): "the branches before it return",
    },
    "csrc/kernels/cuda/copy_loads.h": {
        (
            "constexpr int kLoaded = kVecSize / 2;",
            "constexpr int kLoaded = kVecSize * 2;",
        ): "what is loaded beyond the row is left out again",
    },
    "csrc/kernels/cuda/copy_params.h": {
        ("if (same_chunks) {", "if (0==1) {"): "it chooses among ways with equal results",
    },
    "csrc/kernels/cuda/reverse_copy.cu": {
        (
            "const auto bytes = [&](int64_t columns) { return columns * axis.size * copy.item_size; };",
            "const auto bytes = [&](int32_t columns) { return columns * axis.size * copy.item_size; };",
        ): "a panel has fewer columns",
        (
            "i = size; // with nothing to store; a compiler takes stores under a condition apart with 64-bit offsets",
            "/*i = size; // with nothing to store; a compiler takes stores under a condition apart with 64-bit offsets*/",
        ): "vectors that are left are stored afterwards, and those beyond the row store nothing",
        (
            "int64_t threads = threads_for((per_row + vecs_per_thread - 1) / vecs_per_thread);",
            "int64_t threads = threads_for((per_row / vecs_per_thread - 1) / vecs_per_thread);",
        ): "it chooses how many threads share a row",
        (
            "(bytes(columns) > room(columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * device.sm_count))",
            "(bytes(columns) >= room(columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * device.sm_count))",
        ): "it chooses among ways with equal results",
        (
            "const auto threads_for = [](int64_t n) { return int64_t(std::bit_ceil(uint64_t(n))); };",
            "const auto threads_for = [](int64_t n) { return int64_t(std::bit_ceil(uint32_t(n))); };",
        ): "rows are shared out otherwise, with the same result",
    },
    "csrc/kernels/cuda/vectors.h": {
        ("if (sizeof(Item) < 16 && offset_ != 0) {", "if ( offset_ != 0) {"): "the offset of items of 16 bytes is 0",
    },
    "csrc/kernels/plan.h": {
        (
            "using PlanDims = SmallVector<Dim, 4>;",
            "using PlanDims = SmallVector<Dim, 1>;",
        ): "what does not fit is allocated: slower",
        (
            "int64_t value() const { return int64_t(1) << std::countr_zero(bits_); }",
            "int32_t value() const { return int64_t(1) << std::countr_zero(bits_); }",
        ): "an alignment is at most 16 bytes",
        (
            "return std::max<int64_t>(vec.value() / item_size, 1);",
            "return std::max<int32_t>(vec.value() / item_size, 1);",
        ): "a vector has at most 64 bytes",
        (
            "const auto kept = std::remove_if(dims.begin(), dims.end(), [](const Dim& d) { return d.can_drop(); });",
            "const auto kept = std::remove_if(dims.end(), dims.end(), [](const Dim& d) { return d.can_drop(); });",
        ): "it chooses among ways with equal results",
    },
    "csrc/ops/layout.cpp": {
        ("DimVector<int64_t> strides(sizes.size());", "DimVector<int64_t> strides(sizes);"): "each is set in the loop",
    },
    "csrc/ops/overlap.cpp": {
        (
            "[&](std::size_t a, std::size_t b) { return views[a].address < views[b].address; });",
            "[&](std::size_t a, std::size_t b) { return views[a].address > views[b].address; });",
        ): "all views are one group then, in which every pair is found too",
        (
            "terms.insert(terms.end(), b.terms.begin(), b.terms.end());",
            "terms.insert(terms.begin(), b.terms.begin(), b.terms.end());",
        ): "the terms of a sum in another order",
        (
            "if (parts.size() == 1) return compare_each_pair(group);",
            "/*if (parts.size() == 1) return compare_each_pair(group);*/",
        ): "it chooses among ways with equal results",
    },
    "csrc/ops/windows.cpp": {
        ("Sizes most(sizes.size());", "Sizes most(sizes);"): "all of it is written",
    },
    "csrc/python/fast_calls.cpp": {
        (
            "if (aoti_torch_grad_mode_is_enabled() && requires_grad(arguments[0])) {",
            "if (aoti_torch_grad_mode_is_enabled() && (1==1)) {",
        ): "what records a call leaves out what needs no gradient, and takes longer",
        (
            "for (Py_ssize_t k = 0; k < PyTuple_Size(arguments); ++k) {",
            "for (Py_ssize_t k = 0; k != PyTuple_Size(arguments); ++k) {",
        ): "the count goes up by one",
    },
    "csrc/python/plain.inl": {
        (
            "constexpr Py_ssize_t kMostArguments = 8; // of an operator, with `out`",
            "constexpr Py_ssize_t kMostArguments = (8-1); // of an operator, with `out`",
        ): "no operator has as many",
        ("std::size_t count = 0;", "std::size_t count = -1;"): "torch sets it",
        (
            "static std::atomic<Py_ssize_t> known = -1;",
            "static std::atomic<Py_ssize_t> known = -(1-1);",
        ): "the count is never 0",
    },
    "torch_dml_ops/__main__.py": {
        (
            'example = commands.add_parser("example", help="list the examples of model files, or write one into this folder")',
            'example = commands.add_parser("example", help="list the examples of mFalse or write one into this folder")',
        ): "a word that only people read",
    },
    "torch_dml_ops/_compile/rule.py": {
        (
            'LARGE = sys.maxsize if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else 32 << 20',
            'LARGE = sys.maxsize if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else 32 << (20+1)',
        ): "a bound of tuning",
        ('"the result is reduced and never stored",', '"tTrue and never stored",'): "a word that only people read",
        (
            "if self.arguments[2] != self.innermost:",
            "if self.arguments[2] < self.innermost:",
        ): "no axis is larger than the innermost",
    },
    "torch_dml_ops/_operators/definitions.py": {
        ("@staticmethod", "pass"): "it is called on the class alone",
        (
            "batched: ClassVar[Callable[..., tuple[Any, ...]]]",
            "batched: ClassVar[Callable[tuple[Any, ...], ...]]",
        ): "an annotation that is not evaluated",
        ("@staticmethod", ""): "it is called on the class alone",
    },
    "torch_dml_ops/_torch/private.py": {
        (
            '{"torch.compiler._is_exporting_flag": "is read whenever sizes are compared; torch 2.11 lacks it"},',
            '{"torch.compiler._is_exporting_flag": "is read whenever sizes are compared; torch 2.(11+1) lacks it"},',
        ): "a word that only people read",
        (
            '"torch._inductor.ir": "Inductor\'s tensors: Pointwise, which a formula becomes, and what it may be wrapped in",',
            '"torch._inductor.ir": "Inductor\'s tensors: Pointwise, which a formula becomes, or what it may be wrapped in",',
        ): "a word that only people read",
        (
            '"torch._inductor.ir.Pointwise.create": "a formula as a new buffer",',
            '"torch._inductor.ir.Pointwise.create": "",',
        ): "a word that only people read",
    },
    "torch_dml_ops/directml/_descriptors/rules.py": {
        (
            'yield from same_sizes(LENGTHS, lengths.sizes, whole.sizes, "input_tensor", axis)',
            'continue; yield from same_sizes(LENGTHS, lengths.sizes, whole.sizes, "input_tensor", axis)',
        ): "the loop's body ends there",
    },
    "torch_dml_ops/directml/_models/initial_values.py": {
        (
            "def write(self, memory: Bytes) -> None:",
            "def write( memory: Bytes) -> None:",
        ): "a protocol, which only type checkers read",
        ("@property", "pass"): "a protocol is for type checkers",
        ("Bytes = NDArray[np.uint8]", "pass"): "annotations alone have the name, and they are not evaluated",
    },
    "torch_dml_ops/directml/errors.py": {
        ("from typing import Any", "pass"): "annotations alone have the name, and they are not evaluated",
    },
    "torch_dml_ops/directml/graph.py": {
        (
            "from collections.abc import Iterator, Sequence",
            "pass",
        ): "annotations alone have the name, and they are not evaluated",
        ("outputs: tuple[TensorDesc, ...]", "outputs: tuple[ ...]"): "an annotation that is not evaluated",
    },
    "torch_dml_ops/directml/model.py": {
        (
            'if name != "path" and "\\0" in os.fspath(given):',
            'if name < "path" and "\\0" in os.fspath(given):',
        ): "of the three names, the same two are meant",
    },
    "torch_dml_ops/directml/tensor_desc.py": {
        (
            "repeated = [d for d, stride in enumerate(strides) if stride == 0 and self.sizes[d] > 1]",
            "repeated = [d for d, stride in enumerate(strides) if stride <= 0 and self.sizes[d] > 1]",
        ): "negative strides were refused before",
        (
            "def violations(self, path: JsonPath = (), *, written: bool = False) -> Iterator[Violation]:",
            "def violations(self, path: JsonPath = (), written: bool = False) -> Iterator[Violation]:",
        ): "it is called by names alone",
    },
    "torch_dml_ops/distributed/_plans.py": {
        (
            "steps: list[Step] # what is done then with the tensors that this rank has",
            "steps: list # what is done then with the tensors that this rank has",
        ): "an annotation that is not evaluated",
    },
    "torch_dml_ops/onnx/_importer/inputs.py": {
        (
            "for m, n in zip(reversed(shape), reversed(other), strict=False)",
            "for m, n in zip(reversed(other), reversed(shape), strict=False)",
        ): "it asks the same of both",
        (
            'LISTS = {"scales": (torch.float32,), "condition": (torch.bool,)}',
            'LISTS = {"condition": (torch.bool,), "scales": (torch.float32,)}',
        ): "in another order",
        (
            "def larger(a: int, b: int) -> int:",
            "def larger(b: int, a: int) -> int:",
        ): "the larger one is the same in either order",
        (
            "for value in (*args, *kwargs.values()):",
            "for value in (*kwargs.values(), *args):",
        ): "of two proxies, torch.fx takes either for the same graph",
    },
    "torch_dml_ops/onnx/_importer/moving.py": {
        (
            "def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:",
            "def transpose(data: Tensor, perm: Sequence[int] | None = None) -> Tensor:",
        ): "its only caller gives it by name",
        (
            'def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:',
            'def space_to_depth(input: Tensor , blocksize: int, *, mode: str = "DCR") -> Tensor:',
        ): "it is called by names alone",
    },
    "torch_dml_ops/onnx/_importer/sizes.py": {
        ("if len(left) not in (1, length):", "if len(left) not in (length, 1):"): "in another order",
    },
    "torch_dml_ops/directml/_models/load_model.py": {
        (
            "for place, desc in zip(places, descs, strict=True):",
            "for place, desc in zip(places, descs):",
        ): "they are as many",
        (
            "dispatchables: dict[str, Any]",
            "dispatchables: dict[str]",
        ): "what a dictionary holds is not read of its type",
    },
    "csrc/kernels/cuda/access_pattern.h": {
        (
            "if (items < limits().sm_count * kThreadsPerBlock * kItemsPerThread) return;",
            "if (items < limits().sm_count * kThreadsPerBlock % kItemsPerThread) return;",
        ): "it chooses among ways with equal results",
        (
            "} else if (vec.value() == 4 * launches.item_size) {",
            "} else if (vec.value() == (4+1) * launches.item_size) {",
        ): "it chooses among ways with equal results",
    },
    "torch_dml_ops/__init__.py": {
        (
            'for _name in ("index", *ops.__all__):',
            'for _name in (*ops.__all__, "index"):',
        ): "in another order",
    },
    "torch_dml_ops/viz/_picture.py": {
        (
            "axis: int = -1",
            "axis: int = 1",
        ): "a panel with lengths says along which axis they are",
    },
    "torch_dml_ops/directml/_descriptors/base.py": {
        (
            '_OTHER_KINDS = {"onnx": "an ONNX model", "hlsl": "an HLSL shader", "dmlserializedgraph": "a serialized graph"}',
            '_OTHER_KINDS = {"hlsl": "an HLSL shader", "onnx": "an ONNX model", "dmlserializedgraph": "a serialized graph"}',
        ): "a dictionary that is only looked up",
    },
    "csrc/kernels/cpu/engine.h": {
        ("constexpr int64_t kCacheLineBytes = 64;", "constexpr int32_t kCacheLineBytes = 64;"): "a small constant",
    },
    "torch_dml_ops/onnx/_importer/gather_scatter.py": {
        (
            "HALVES = (torch.float16, torch.bfloat16)",
            "HALVES = ( torch.bfloat16,torch.float16)",
        ): "which comes first makes no difference",
        (
            'def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:',
            'def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:',
        ): "ONNX's checker refuses a fourth input before",
        ("raise", "pass"): "torch raises IndexError for an index out of range alone, which is refused before",
    },
    "csrc/ops/check.cpp": {
        (
            'if (number >= int32_t(ScalarType::Undefined)) return "dtype number " + std::to_string(number); // of a newer torch',
            '/*if (number >= int32_t(ScalarType::Undefined)) return "dtype number " + std::to_string(number); // of a newer torch*/',
        ): "no dtype of this torch has such a number",
    },
    "csrc/kernels/cpu/inner_loops.cpp": {
        (
            "constexpr bool kShufflesBytes = true;",
            "constexpr bool kShufflesBytes = false;",
        ): "it chooses among ways with equal results",
        (
            "if (level.is_supported() && (level.is_fast() || named)) chosen = &level.loops;",
            "if (level.is_supported() && (1==1)) chosen = &level.loops;",
        ): "it chooses among ways with equal results",
    },
    "csrc/ops/execute_cpu.cpp": {
        (
            "pair[1] = int64_t(found.first);",
            "pair[1] = int32_t(found.first);",
        ): "there are fewer views",
    },
    "torch_dml_ops/directml/_schema/structs.py": {
        ("@dataclass(frozen=True)", "pass"): "whatever inherits it is a dataclass, and it has no fields",
    },
}
