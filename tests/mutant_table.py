"""The faults of mutants.py: by area, the tests that should notice, and by file, what becomes what.

Of a text, what lies between « and » is replaced. Texts are short, so that they survive changes nearby; where one does
not occur exactly once any more, test_mutants.py says so.
"""

Row = tuple[str, str]

KERNELS = "tests/test_kernels.py -k '(random_plans_under or every_alignment) and LEVEL'"

AREAS: dict[str, tuple[str, dict[str, list[Row]]]] = {
    "CPU engine": (
        KERNELS,
        {
            "csrc/kernels/cpu/affine_copy.cpp": [
                ("«d.src_stride != 1» || d.dst_stride", "false"),
                ("«d.dst_stride != count»", "false"),
                ("copy.dst != copies.front().dst + writer.bytes(k)", "false"),
                ("«items != stride» || bytes >", "false"),
                ("copy.dst - first + writer_.bytes(n) > writer_.bytes(stride)", "false"),
            ],
            "csrc/kernels/cpu/inner_loops/reverse.inl": [("if («n <= kItems») return", "n < kItems")],
        },
    ),
    "operators": (
        "tests/test_out.py tests/test_results.py tests/test_properties.py",
        {
            "csrc/ops/slice1.cpp": [('Name{"input"}, input, «false»)', "true")],
            "csrc/ops/check.cpp": [
                ("ones(a) < ones(b)", "ones(a) <= ones(b)"),
                ("return own;", ""),
                ("strides[a] > strides[b] : «sizes[a] > sizes[b]»", "false"),
            ],
        },
    ),
    "rules": (
        "tests/test_directml_descriptors.py",
        {"torch_dml_ops/directml/_rules.py": [("1 <= stride« <= UINT_MAX»", "")]},
    ),
    "graph": (
        "tests/test_directml_graph.py",
        {
            "torch_dml_ops/directml/_memory.py": [
                ("reshape(-1)«.contiguous()»", ""),
                ("all(«size == 1 or »stride == other", ""),
            ]
        },
    ),
    "descriptors": (
        "tests/test_directml_operator.py",
        {"torch_dml_ops/directml/operator.py": [("if «size != 1 and »stride", "")]},
    ),
    "mode": (
        "tests/test_negative_steps.py",
        {"torch_dml_ops/_negative_steps.py": [("_setitem« or func is operator.setitem»", "")]},
    ),
    "index": ("tests/test_index.py", {"torch_dml_ops/_index.py": [("(input«, *_numbers_in(index)»):", ",")]}),
    "autograd": (
        "tests/test_distributed.py",
        {
            "torch_dml_ops/_autograd.py": [
                (
                    "    return «[t if isinstance(t, type(like)) else like.new_zeros(t.shape) for t in cotangents]»",
                    "cotangents",
                )
            ]
        },
    ),
    "vmap": (
        "tests/test_vmap.py tests/test_autograd.py",
        {"torch_dml_ops/_vmap.py": [("«join_sizes(inputs, axis)»\n    return torch.cat", "pass")]},
    ),
}

# Faults that change no result, and why.
EQUIVALENT: dict[str, str] = {}
