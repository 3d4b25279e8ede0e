# ruff: noqa: E501  (lines of sources)
"""Faults of `make mutants SAMPLE=…` that nothing could notice: by file, the line, what becomes of it, and why."""

EQUIVALENT_CHANGES: dict[str, dict[tuple[str, str], str]] = {
    "csrc/kernels/cpu/affine_copy.cpp": {
        ("if (is_transposition(dims) ||", "if ("): "it chooses the chunks' size, which no result depends on",
        (
            "if (dims.size() < 3 || dims.back().dst_stride != 1) return;",
            "if (dims.size() < 3 || dims.back().src_stride != 1) return;",
        ): "it chooses among ways with equal results",
    },
    "csrc/kernels/cpu/chunk_writer.h": {
        (
            "if (whole <= 0) return;",
            "if (whole < 0) return;",
        ): "where nothing is whole, nothing is stored, and what is kept is copied to where it is",
        ("return true;", "return false;"): "it chooses among ways with equal results",
    },
    "csrc/kernels/cpu/huge_pages.cpp": {
        (
            "const auto first = reinterpret_cast<uintptr_t>(memory), last = first + uintptr_t(bytes);",
            "const auto first = reinterpret_cast<uintptr_t>(memory), last = first / uintptr_t(bytes);",
        ): "the system refuses the advice, and nothing is touched beforehand: slower, with the same result",
    },
    "csrc/kernels/cpu/inner_loops.inl": {
        (
            "return copy_reversed_strided_rows<T, 4>(t);",
            "break; return copy_reversed_strided_rows<T, 4>(t);",
        ): "the way of any stride gives the same, and is slower",
    },
    "csrc/kernels/cpu/inner_loops/copy.inl": {
        (
            "at = kVectorBytes - int64_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);",
            "at = kVectorBytes - int32_t(reinterpret_cast<uintptr_t>(dst) % kVectorBytes);",
        ): "an offset within a vector",
    },
    "csrc/kernels/cpu/inner_loops/gather.inl": {
        ("}", "continue; }"): "the loop's body ends there",
    },
    "csrc/kernels/cpu/inner_loops/non_temporal.inl": {
        (
            "for (int64_t i = from; i < to; ++i) dst[i] = src[i * kSrcStride];",
            "for (int32_t i = from; i < to; ++i) dst[i] = src[i * kSrcStride];",
        ): "a chunk has fewer items",
    },
    "csrc/kernels/cpu/inner_loops/reverse.inl": {
        ("if (t.prefetch_rows)", "if (1==1)"): "where no row follows, an address is prefetched that nobody reads",
    },
    "csrc/kernels/cpu/reverse_copy.cpp": {
        (
            "for (int64_t columns = kMaxPanelColumns; columns >= writer_.items(kCacheLineBytes) && !panel_columns_; columns /= 2)",
            "for (int64_t columns = kMaxPanelColumns; columns >= writer_.items(kCacheLineBytes) && panel_columns_; columns /= 2)",
        ): "it chooses among ways with equal results",
    },
    "csrc/kernels/cpu/tuning.cpp": {
        ("__builtin_cpu_init();", ";"): "the compiler's own constructor has done so before any of ours",
    },
    "csrc/kernels/cuda/reverse_copy.cu": {
        (
            "(bytes(columns) > room(columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * device.sm_count))",
            "(bytes(columns) >= room(columns > 2 * sector ? 3 : 2) || panels(columns) < 2 * device.sm_count))",
        ): "it chooses among ways with equal results",
    },
    "csrc/kernels/cuda/vectors.h": {
        ("if (sizeof(Item) < 16 && offset_ != 0) {", "if ( offset_ != 0) {"): "the offset of items of 16 bytes is 0",
    },
    "csrc/kernels/plan.h": {
        (
            "return std::max<int64_t>(vec.value() / item_size, 1);",
            "return std::max<int32_t>(vec.value() / item_size, 1);",
        ): "a vector has at most 64 bytes",
    },
    "csrc/library.cpp": {
        (
            "std::list<StableLibrary> without_strides_, without_fast_calls_, fast_with_lazy_views_, with_lazy_views_;",
            "std::list<StableLibrary> without_strides_, fast_with_lazy_views_, without_fast_calls_, with_lazy_views_;",
        ): "declared in another order",
    },
    "csrc/ops/overlap.cpp": {
        (
            "terms.insert(terms.end(), b.terms.begin(), b.terms.end());",
            "terms.insert(terms.begin(), b.terms.begin(), b.terms.end());",
        ): "the terms of a sum in another order",
    },
    "csrc/python/plain.inl": {
        ("std::size_t count = 0;", "std::size_t count = -1;"): "torch sets it",
        ("static Py_ssize_t known = -1;", "static Py_ssize_t known = -(1-1);"): "the count is never 0",
    },
    "torch_dml_ops/_compile/inductor.py": {
        (
            'LARGE = sys.maxsize if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else 32 << 20',
            'LARGE = sys.maxsize if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else 32 << (20+1)',
        ): "a bound of tuning",
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
    "torch_dml_ops/directml/tensor_desc.py": {
        (
            "repeated = [d for d, stride in enumerate(strides) if stride == 0 and self.sizes[d] > 1]",
            "repeated = [d for d, stride in enumerate(strides) if stride <= 0 and self.sizes[d] > 1]",
        ): "negative strides were refused before",
    },
    "torch_dml_ops/onnx/_importer/inputs.py": {
        (
            "for value in (*args, *kwargs.values()):",
            "for value in (*kwargs.values(), *args):",
        ): "of two proxies, torch.fx takes either for the same graph",
    },
}
