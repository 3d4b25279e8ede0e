"""torch.export and AOTInductor: calls that are saved, and run where the Python package is not."""

import re
import zipfile
from pathlib import Path

import plain_torch
import pytest
import torch
from oracle import as_list
from processes import run_python
from torch import Tensor
from torch.export import Dim, ExportedProgram
from transform_cases import ANY_SHAPE, Case, by_name, same, values

import torch_dml_ops as dml
from torch_dml_ops._libraries import CPU_LIBRARY


class Call(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.case.results(dml, x)


def exported(module: torch.nn.Module, x: Tensor, *dynamic: Dim) -> ExportedProgram:
    return torch.export.export(module, (x,), dynamic_shapes=(dict(enumerate(dynamic)),))


@by_name(ANY_SHAPE)
def test_an_exported_call_runs_for_other_sizes_after_a_file(case: Case, tmp_path: Path) -> None:
    # Fewer columns would make results of size 1, to which torch.export specialises by itself.
    program = exported(Call(case), values((4, 5)), Dim("rows"), Dim("columns", min=3))
    torch.export.save(program, tmp_path / "call.pt2")
    loaded = torch.export.load(tmp_path / "call.pt2")
    calls = [node.target for node in loaded.graph.nodes if node.op == "call_function"]
    assert calls.count(getattr(torch.ops.torch_dml_ops, case.name).default) == 1
    for sizes in ((4, 5), (7, 3), (2, 9), (1, 4), (0, 6)):
        x = values(sizes)
        same(loaded.module()(x), case.results(plain_torch, x))


def test_an_index_of_slices_is_one_call() -> None:
    case = Case("index", lambda ops, x: ops.index(x)[::-2, 1:], ((4, 5),))
    nodes = exported(Call(case), values((4, 5))).graph.nodes
    assert [n.target for n in nodes if n.op == "call_function"] == [torch.ops.torch_dml_ops.slice1.default]


class AllFive(torch.nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        lengths = dml.sequence_lengths_like(x, torch.arange(x.shape[0], device=x.device), axis=1)
        y = dml.reverse_subsequences(x, lengths, 1)
        left, right = dml.split(y, [1, 4], 1)
        z = dml.slice1(dml.join([right, left], 1), [0, 0, 1], [x.shape[0], 5, 2], [-1, 2, 1])
        return [left, right, z, dml.slice_grad(z, x.shape, [0, 0, 1], [x.shape[0], 5, 2], [-1, 2, 1])]


RUN = """
import sys
import torch

{load}
package, inputs, results = sys.argv[1:]
run = torch._inductor.aoti_load_package(package)
torch.save([run(x) for x in torch.load(inputs)], results)
assert ("torch_dml_ops" in sys.modules) == {imported}
"""
ALONE = RUN.format(load=f"torch.ops.load_library({str(CPU_LIBRARY)!r})", imported=False)
# What is loaded first: the Python package, the library alone, or nothing where everything is fused.
PROGRAMS = {
    "never": (RUN.format(load="import torch_dml_ops", imported=True), ALONE),
    "always": (RUN.format(load="", imported=False),),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mode", PROGRAMS)
def test_a_package_of_aotinductor_runs_in_fresh_processes(mode: str, tmp_path: Path) -> None:
    package, inputs_file, results_file = (str(tmp_path / name) for name in ("all_five.pt2", "inputs.pt", "results.pt"))
    program = exported(AllFive(), values((4, 5, 3), torch.float32), Dim("batch"))
    ours = {node.target for node in program.graph.nodes if "torch_dml_ops" in str(node.target)}
    assert len(ours) == 5  # an exported program has the operators, whatever the mode
    with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False), dml.set_fusion(mode):
        torch._inductor.aoti_compile_and_package(program, package_path=package)
    with zipfile.ZipFile(package) as files:
        code = b"".join(files.read(name) for name in files.namelist() if name.endswith((".cpp", ".json")))
    assert b"aoti_torch_" in code
    # The folder of this file may have that name too.
    assert bool(re.findall(rb"torch_dml_ops(?:::|\.)\w+", code)) == (mode == "never")
    inputs = [values((batch, 5, 3), torch.float32) for batch in (4, 2, 7)]
    torch.save(inputs, inputs_file)
    for script in PROGRAMS[mode]:
        run_python("-c", script, package, inputs_file, results_file, cwd=tmp_path)
        for x, results in zip(inputs, torch.load(results_file), strict=True):
            for actual, expected in zip(as_list(results), AllFive()(x), strict=True):
                same(actual.view(torch.int32), expected.view(torch.int32))
                assert actual.stride() == expected.stride()
