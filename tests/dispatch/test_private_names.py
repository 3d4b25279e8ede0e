"""On a torch that lacks a private name: what is built on it is done another way, or refused in one sentence."""

from importlib.util import find_spec
from pathlib import Path

import torch
from private_names import assert_work, defined_names, private_names

import torch_dml_ops
from torch_dml_ops._torch import private, short_way

PACKAGE = Path(torch_dml_ops.__file__).parent
SECTIONS = {name: value for name, value in vars(private).items() if isinstance(value, private.Section)}
# Without which torch itself registers no operator.
NEEDED_BY_TORCH = {"torch.library._impls", "torch.jit._builtins._register_builtin"}


def test_every_name_is_in_the_table_and_looked_up_by_it() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    ours = {name for file in files for name in defined_names(file)}
    assert all(section.without and all(section.names.values()) for section in SECTIONS.values())  # what each is for
    table = {path for section in SECTIONS.values() for path in section.names}
    values = {f"torch.{path.rpartition('.')[2]}" for path in table}
    used = {str(file.relative_to(PACKAGE)): private_names(file, ours) for file in files}
    assert used.pop("_torch/private.py") <= table
    assert used.pop("onnx/_onnx2torch.py") == {"torch._CONVERTER_REGISTRY"}  # which is not torch's
    assert {file: found for file, names in used.items() if (found := names - values)} == {}
    assert {"torch._spec", "torch._cdata", "torch._op"} < set().union(*used.values())


def test_the_short_way_is_there_with_its_library_and_its_names() -> None:
    """Were it not, for a mistake in setting it up, its tests would be skipped."""
    built = find_spec("torch_dml_ops._fast_calls") is not None
    assert short_way.is_set_up == (built and not private.SHORT_WAY.missing)
    if short_way.is_set_up:
        assert short_way.fast.slice1(torch.arange(3), [0], [3], [-1], None, None).tolist() == [2, 1, 0]


# What is done on such a torch, by the section of the table that has the name.

SHORT_WAY = """
def work(name):
    warnings.simplefilter("ignore")
    with without(name):
        import torch_dml_ops as dml
        from torch_dml_ops._torch import short_way
        from torch_dml_ops.__main__ import report
    assert not short_way.is_set_up
    assert report()["calls"].startswith("ordinary way only"), report()["calls"]

    import plain_torch
    from transform_cases import FIVE, same
    for case in FIVE:
        leaves = [x.requires_grad_() for x in case.tensors()]
        expected = case.results(plain_torch, *leaves)
        for ops in (dml, torch.ops.torch_dml_ops):
            results = case.results(ops, *leaves)
            same(results, expected)
            same(*(torch.autograd.grad(sum(map(torch.sum, r)), leaves, retain_graph=True) for r in (results, expected)))
    x = torch.arange(3.0)
    same(dml.slice1(x, [0], [3], [-1], out=torch.empty(3)), x.flip(0))
    assert refused(lambda: dml.slice1(x, [0, 0], [1], [1])).startswith("slice1: window_offsets must have length 1")
"""
# Backward works, and one warning says so.
DERIVATIVES = """
def work(name):
    with warned_without(name, "lacks a name that the derivatives are built on", name.rpartition(".")[2]):
        import torch_dml_ops as dml
        from torch_dml_ops.__main__ import report
    assert report()["derivatives"].startswith("backward only"), report()

    from transform_cases import CASES, FIVE
    everything = name.endswith(".set_single_level_autograd_function_allowed")
    for case in CASES if everything else FIVE:
        leaves = [x.requires_grad_() for x in case.tensors()]
        call = lambda *tensors: tuple(y.sin() for y in case.results(dml, *tensors))
        assert torch.autograd.gradcheck(call, leaves), case.name
        assert not everything or torch.autograd.gradgradcheck(call, leaves), case.name

    # What the documents say of register_autograd, and why the package has another way where it can.
    x, turned = torch.arange(3.0), lambda x: dml.slice1(x, [0], [3], [-1])
    assert "functorch transforms" in refused(lambda: torch.func.grad(lambda x: turned(x).sum())(x))
    assert torch.func.jvp(turned, (x,), (torch.ones(3),))[1].tolist() == [0, 0, 0]
"""
DTENSORS = """
import torch.distributed as dist
from torch.distributed.tensor import Shard, init_device_mesh, zeros
from torch.testing._internal.distributed.fake_pg import FakeStore

def work(name):
    warnings.simplefilter("ignore")
    with without(name):
        import torch_dml_ops as dml
        import torch_dml_ops.distributed
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    x = zeros(4, 6, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)])
    window = [0, 0], [4, 6], [-1, 1]
    for call in (
        lambda: dml.slice1(x, *window),
        lambda: torch.ops.torch_dml_ops.slice1.default(x, *window),
        lambda: dml.slice1(x, *window, out=x),
        lambda: dml.join([x, x], 0),
        lambda: dml.distributed.traffic("slice1", x, *window),
    ):
        said = refused(call)
        assert ": DTensors need a torch with the names that their rules are built on, got 2." in said, said
        assert said.endswith("call to_local() for this rank's part, or full_tensor()"), said
        assert name.rpartition(".")[2] in said, said
    assert dml.slice1(torch.arange(3), [0], [3], [-1]).tolist() == [2, 1, 0]
"""
# All else is as before.
SMALL = """
def work(name):
    with without(name):
        import torch_dml_ops as dml
        from torch_dml_ops._torch import private
        assert name in [s.missing for s in vars(private).values() if isinstance(s, private.Section)], name
    from transform_cases import FIVE, same
    import plain_torch
    for case in FIVE:
        same(case.results(dml, *case.tensors()), case.results(plain_torch, *case.tensors()))
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    same(dml.index(x)[0, None, ::-1], x[0, None].flip(1))
    same(torch.autograd.grad(dml.index(x)[1, ::-1].prod(), x), torch.autograd.grad(x[1].prod(), x))
    y, out = torch.empty(3, device="meta"), torch.empty(3, device="meta")
    assert refused(lambda: dml.slice1(y, [0], [4], [1])).startswith("slice1: window_")
    assert dml.slice1(y, [0], [3], [-1], out=out) is out
    turned = dml.negative_steps(lambda: (yield torch.arange(3)[::-1].tolist()))
    assert list(turned()) == [[2, 1, 0]]
    compiled = torch.compile(lambda x: dml.index(x)[0, ::-1] * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    same(compiled(x), x[0].flip(0) * 2)
"""
# Compiled functions call the kernels; test_inductor.py compiles on such a torch.
INDUCTOR = """
import torch_dml_ops

def work(name):
    from torch_dml_ops._compile import setting
    from torch_dml_ops.__main__ import report
    with warned_without(name, f"lacks a name that fusing the operators is built on ({name})"):
        assert setting.missing() == name, setting.missing()
    assert report()["torch.compile"].startswith("calls of the kernels only"), report()
"""
# A warning names the argument to pass.
ONNX = """
import torch.onnx._internal.exporter._torchlib._torchlib_registry

def work(name):
    with warnings.catch_warnings(record=True) as caught, without(name):
        warnings.simplefilter("always")
        import torch_dml_ops.onnx
    assert [w for w in caught if f"has another registry ({name})" in str(w.message)], caught
    assert len(torch_dml_ops.onnx.translation_table()) == 5
"""
PROGRAMS = {
    "SHORT_WAY": SHORT_WAY,
    "DERIVATIVES": DERIVATIVES,
    "DTENSORS": DTENSORS,
    "INDUCTOR": INDUCTOR,
    "ONNX": ONNX,
}
PROGRAMS |= dict.fromkeys(
    ("CHECK", "RESHAPE", "STORAGE", "EXPORTING", "RESUMED"), SMALL
)  # which no module of their own needs


def test_without_a_name_all_else_works_and_a_sentence_names_it() -> None:
    assert set(SECTIONS) == set(PROGRAMS)
    there = {section: program for section, program in PROGRAMS.items() if section != "ONNX" or find_spec("onnxscript")}
    names = {section: [*SECTIONS[section].names] for section in there}
    names["SHORT_WAY"] = [name for name in names["SHORT_WAY"] if name not in NEEDED_BY_TORCH]
    assert_work(**{section: (program, names[section]) for section, program in there.items()})
