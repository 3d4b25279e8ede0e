"""On a torch that lacks a private name: what is built on it is done another way, or refused in one sentence."""

import pkgutil
from importlib import import_module

from private_names import assert_works, private_names

from torch_dml_ops import _autograd, _fast, distributed

SHORT_WAY = """
def work(name):
    warnings.simplefilter("ignore")
    with without(name):
        import torch_dml_ops as dml
        from torch_dml_ops import _fast
        from torch_dml_ops.__main__ import report
    assert not _fast.available
    assert report()["calls"].startswith("ordinary way only"), report()["calls"]

    import plain_torch
    from operator_cases import FIVE, same
    for case in FIVE:
        leaves = [x.requires_grad_() for x in case.tensors()]
        expected = case.results(plain_torch, *leaves)
        for ops in (dml, torch.ops.torch_dml_ops):
            results = case.results(ops, *leaves)
            same(results, expected)
            same(*(torch.autograd.grad(sum(map(torch.sum, r)), leaves, retain_graph=True) for r in (results, expected)))
    x = torch.arange(3.0)
    same(dml.slice1(x, [0], [3], [-1], out=torch.empty(3)), x.flip(0))
    try:
        dml.slice1(x, [0, 0], [1], [1])
    except RuntimeError as error:
        assert str(error).startswith("slice1: window_offsets must have length 1"), error
    else:
        raise AssertionError("it was not refused")

each_apart(work, sys.argv[1:])
"""


def test_without_a_name_of_the_short_way_all_calls_go_the_ordinary_way() -> None:
    names = private_names(_fast)
    assert {"torch._C._len_torch_dispatch_stack", "torch.autograd.forward_ad._current_level"} < names
    assert_works(SHORT_WAY, *sorted(names))


DERIVATIVES = """
def work(name):
    with warnings.catch_warnings(record=True) as caught, without(name):
        warnings.simplefilter("always")
        import torch_dml_ops as dml
        from torch_dml_ops.__main__ import report
    [warning] = caught
    assert "lacks a name that the derivatives are built on" in str(warning.message), warning
    assert name.rpartition(".")[2] in str(warning.message), warning
    assert report()["derivatives"].startswith("backward only"), report()

    from operator_cases import CASES, FIVE
    everything = name.endswith(".set_single_level_autograd_function_allowed")
    for case in CASES if everything else FIVE:
        leaves = [x.requires_grad_() for x in case.tensors()]
        call = lambda *tensors: tuple(y.sin() for y in case.results(dml, *tensors))
        assert torch.autograd.gradcheck(call, leaves), case.name
        assert not everything or torch.autograd.gradgradcheck(call, leaves), case.name

each_apart(work, sys.argv[1:])
"""


def test_without_a_name_of_the_derivatives_backward_works_and_one_warning_says_so() -> None:
    names = private_names(_autograd)
    assert {"torch.autograd.function._SingleLevelFunction", "torch.autograd.forward_ad._current_level"} < names
    assert_works(DERIVATIVES, *sorted(names))


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
        try:
            call()
        except RuntimeError as error:
            said = str(error)
        assert ": DTensors need a torch with the names that their rules are built on, got 2." in said, said
        assert name.rpartition(".")[2] in said, said
        del said
    assert dml.slice1(torch.arange(3), [0], [3], [-1]).tolist() == [2, 1, 0]

each_apart(work, sys.argv[1:])
"""


def test_without_a_name_of_their_rules_dtensors_get_one_sentence() -> None:
    modules = [import_module(f"{distributed.__name__}.{m.name}") for m in pkgutil.iter_modules(distributed.__path__)]
    names = set().union(*(private_names(m, values="torch.distributed.tensor.DTensor") for m in modules))
    assert {"torch.distributed.tensor.DTensor._spec", "torch.autograd.forward_ad._current_level"} < names
    assert_works(DTENSORS, *sorted(names))
