"""What is built: the stable ABI alone, one wheel for every CPython, CUDA kernels wherever nvcc is."""

import email
import itertools
import json
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import arm
import matrix
import pytest
import torch
from filelock import FileLock
from host_build import ROOT, program, unoptimized
from packaging.version import Version
from processes import run_program, started

import torch_dml_ops
from torch_dml_ops import _libraries
from torch_dml_ops.__main__ import report

LIBRARIES = [p for p in (_libraries.CPU_LIBRARY, _libraries.CUDA_LIBRARY) if p.exists()]
needs_cuda_kernels = pytest.mark.skipif(not _libraries.CUDA_LIBRARY.exists(), reason="this build has no CUDA kernels")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, to build CUDA kernels")


def run(*command, cwd=ROOT, **environment):
    done = started(*command, cwd=cwd, **environment)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def source_copy(tmp_path_factory):
    """The source distribution, made where there is no nvcc and unpacked: to build in without touching this build."""
    folder = tmp_path_factory.mktemp("source")
    command = ("setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", folder)
    code, text = run(sys.executable, *command, TORCH_DML_OPS_CUDA="0")
    assert code == 0, text
    code, text = run("tar", "-xzf", folder / f"torch_dml_ops-{torch_dml_ops.__version__}.tar.gz", "-C", folder)
    assert code == 0, text
    return folder / f"torch_dml_ops-{torch_dml_ops.__version__}"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout by git knows which files are its own")
def test_the_source_distribution_is_the_checkout(source_copy):
    listed = [run("git", "ls-files", option, "--exclude-standard")[1] for option in ("--cached", "--others")]
    kept, new = ({name for name in text.splitlines() if (ROOT / name).exists()} for text in listed)
    links = {name for name in kept if (ROOT / name).is_dir()}  # to folders, of which the distribution has the files
    kept = kept - links | {f"{name}/{path.name}" for name in links for path in (ROOT / name).iterdir()}
    files = {str(path.relative_to(source_copy)) for path in source_copy.rglob("*") if path.is_file()}
    files = {name for name in files if not name.startswith("torch_dml_ops.egg-info/")} - {"PKG-INFO", "setup.cfg"}
    assert "csrc/kernels/cuda/affine_copy.cu" in kept
    assert kept - files == {".ci/run", ".gitignore"}
    assert files - kept <= new


def test_every_package_is_listed():
    """One that is not would be installed as data of the one above, with a warning."""
    listed = re.findall(r'^  "(torch_dml_ops[\w.]*)",$', (ROOT / "pyproject.toml").read_text(), re.M)
    found = {path.parent.relative_to(ROOT) for path in (ROOT / "torch_dml_ops").rglob("*.py")}
    assert sorted(listed) == sorted(".".join(folder.parts) for folder in found)


def test_what_a_registry_shows(source_copy):
    """Links of its page lead out of it, or nowhere; classifiers name the Pythons that the tests run on."""
    metadata = email.message_from_string((source_copy / "PKG-INFO").read_text(encoding="utf-8"))
    page = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# torch_dml_ops" in page
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    assert "building (docs/building.md)" in page.lower()
    classified = {line.rpartition(" ")[2] for line in metadata.get_all("Classifier") if "Python :: 3." in line}
    run_on = [version for version in matrix.PYTHONS if not version.endswith("t")]
    assert classified == {*run_on, "3.11"}  # that of `make`
    assert metadata["Requires-Python"] == f">={run_on[0]}"


def test_the_table_of_what_ran_has_a_row_for_each_and_its_commit():
    pairs = [
        *((torch, "3.11") for torch in matrix.TORCHES),
        *((torch, python) for python, torch in matrix.PYTHONS.items()),
    ]
    rows = re.findall(r"^\| (torch [^|]*) \| [^|]+ \| ([^|]+) \| ([^|]*)\|$", (ROOT / matrix.TABLE).read_text(), re.M)
    assert [name for name, _, _ in rows] == [*(matrix.ran_on(*pair) for pair in pairs), arm.RAN_ON]
    history = run("git", "rev-parse", "--is-shallow-repository") == (0, "false\n")
    for name, outcome, commit in rows:
        assert (outcome == "not run") == (commit == ""), name
        if commit and history:
            assert run("git", "merge-base", "--is-ancestor", commit.split()[0], "HEAD")[0] == 0, name


def test_the_container_file():
    """Its instructions are known, what it copies is there, and it installs the torch of the Makefile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.M).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    known = {"ARG", "COPY", "ENTRYPOINT", "FROM", "RUN", "USER", "WORKDIR"}
    assert {instruction for instruction, _ in lines} == known
    stages = [rest.partition(" AS ")[2] for instruction, rest in lines if instruction == "FROM"]
    assert stages == ["build", ""]
    for rest in (rest.split() for instruction, rest in lines if instruction == "COPY"):
        if rest[0].startswith("--from="):
            assert rest[0].removeprefix("--from=") in stages
        else:
            assert all((ROOT / source).exists() for source in rest[:-1])
    copied = {name for instruction, rest in lines if instruction == "COPY" for name in rest.split()[:-1]}
    for link in (path for path in (ROOT / "torch_dml_ops").rglob("*") if path.is_symlink()):
        assert str(link.resolve().relative_to(ROOT)) in copied
    for _, script in (line for line in lines if line[0] == "RUN"):
        assert subprocess.run(["bash", "-n", "-c", script]).returncode == 0
    (entry,) = (json.loads(rest) for instruction, rest in lines if instruction == "ENTRYPOINT")
    assert entry[1:] == ["-m", "torch_dml_ops"]
    (torch_of_make,) = re.findall(r"^TORCH := (\S+)", (ROOT / "Makefile").read_text(), re.M)
    assert set(re.findall(r"torch==[\d.]+", text)) == {torch_of_make}


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: p.name)
def test_library_needs_nothing_outside_the_stable_abi(library):
    code, text = run("nm", "-D", "--undefined-only", library)
    assert code == 0, text
    symbols = [line.split()[-1].split("@")[0] for line in text.splitlines()]
    assert "aoti_torch_library_init_impl" in symbols
    # Python's, and C++ names of torch's namespaces, wherever they stand in the mangled name, as this one.
    wrong = re.compile(r"_?Py|_Z.*\d(at|c10|torch|caffe2)(?=\d|[A-Z])")
    of_torch = "_ZN2at6Tensor5zero_Ev"
    assert list(filter(wrong.match, [*symbols, of_torch])) == [of_torch]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: p.name)
def test_library_exports_nothing_that_could_stand_in_for_the_other(library):
    code, text = run("nm", "-D", "--defined-only", library)
    assert code == 0, text
    own = {
        _libraries.CPU_LIBRARY: {
            "torch_dml_ops_simd_level",
            "torch_dml_ops_simd_levels",
            "torch_dml_ops_find_overlap",
            "torch_dml_ops_leave_to_python",
        },
        _libraries.CUDA_LIBRARY: {"torch_dml_ops_cuda_architectures"},
    }
    # What is in both is looked up in the one that is meant: torch loads libraries with names of their own.
    assert {line.split()[-1] for line in text.splitlines()} == own[library] | {"torch_dml_ops_fast_call"}


def test_library_loads_in_a_program_without_python():
    assert run_program(program("load_library"), _libraries.CPU_LIBRARY) == "loaded\n"


@needs_cuda_kernels
def test_cuda_library_loads_on_any_torch():
    code = "import torch; from torch_dml_ops._libraries import CUDA_LIBRARY as library; "
    code += "torch.ops.load_library(str(library)); print('loaded')"
    assert run(sys.executable, "-c", code) == (0, "loaded\n")


def uses_local_memory(line):
    return any(int(n) for n in re.findall(r"(\d+) (?:stack|spill stores|spill loads)", line))


def is_defect(line):
    return uses_local_memory(line) or "not understood" in line or "warning" in line


@needs_nvcc
@needs_cuda_kernels
def test_kernels_use_registers_alone_and_keep_their_bounds():
    """Registers that do not suffice, or an array that is indexed by what is known only at run time, lie in memory; and
    ptxas ignores the bound of a launch that the architecture cannot keep."""
    lines = (ROOT / "build" / "ptxas.txt").read_text().splitlines()
    architectures = re.findall(r"[\d.]+", _libraries.cuda_architectures())
    for architecture in architectures:
        kernels = [line for line in lines if line.startswith(f"sm_{architecture.replace('.', '')} ")]
        for name in ("copy_vectorized<", "copy_tiled<", "reverse_vectorized<", "reverse_panels<"):
            assert any(name in line for line in kernels)
    assert [line for line in lines if is_defect(line)] == []


@pytest.fixture
def ptxas_report(tmp_path):
    """What ptxas_report.py keeps of a source that nvcc compiles with these options; None if it does not compile."""

    def compiled(source, *options):
        (tmp_path / "kernels.cu").write_text(source)
        command = ["nvcc", *options, "-Xptxas=-v", "-c", tmp_path / "kernels.cu", "-o", tmp_path / "kernels.o"]
        report = tmp_path / "kernels.o.ptxas"
        report.unlink(missing_ok=True)
        code, text = run(sys.executable, ROOT / "csrc" / "ptxas_report.py", *command)
        assert report.exists() == (code == 0) == ("error" not in text), text
        return report.read_text().splitlines() if code == 0 else None

    return compiled


@needs_nvcc
def test_ptxas_report_sees_local_memory(ptxas_report):
    source = """
        __global__ void plain(int* p) {
          __shared__ int items[64];
          items[threadIdx.x] = p[0];
          __syncthreads();
          p[1] = items[p[2]];
        }
        __global__ void indexed(int* p) {
          int items[64] = {};
          for (int i = 0; i < 64; ++i) items[p[i] & 63] += i;
          for (int i = 0; i < 64; ++i) p[i] = items[i];
        }
    """
    lines = ptxas_report(source, "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
    assert [line.split()[0] for line in lines] == ["sm_80", "sm_80", "sm_90", "sm_90"]
    for line in lines:
        assert uses_local_memory(line) == line.endswith("indexed")
        assert (" 256 shared" in line) == line.endswith("plain")
        assert re.search(r" [1-9]\d* registers", line)
    assert ptxas_report("__global__ void f(") is None


@needs_nvcc
def test_every_architecture_keeps_the_bound_of_blocks(ptxas_report):
    """Those of the build are not all that TORCH_CUDA_ARCH_LIST may name."""
    source = '#include "kernels/cuda/device.h"\nusing namespace torch_dml_ops::cuda;\n'
    for name, bound in {"kept": "kMaxBlocksPerSM", "too_many": "kMaxBlocksPerSM + 1"}.items():
        source += f"__global__ void __launch_bounds__(kThreadsPerBlock, {bound}) {name}(int* p) {{ p[0] = 0; }}\n"
    lines = ptxas_report(source, "-std=c++20", "-I", ROOT / "csrc", "-arch=all", "--threads=2")
    compiled = [line for line in lines if line.startswith("sm_")]
    assert {line.split()[0] for line in compiled} == set(run("nvcc", "--list-gpu-code")[1].split())
    warnings = [line for line in lines if is_defect(line)]
    assert len(warnings) == len(compiled) / 2
    assert all("too_many" in line for line in warnings)


def test_ptxas_report_counts_what_it_does_not_understand():
    lines = runpy.run_path(str(ROOT / "csrc" / "ptxas_report.py"))["lines"]
    entry = "ptxas info : Compiling entry function 'f' for 'sm_90'\n"
    assert lines(2 * entry) == ["not understood: 2 kernels"]
    assert lines("") == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel as `make wheel` builds it, with CUDA kernels where this build has them: auditwheel names it after the
    systems that it runs on."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all processes of pytest-xdist, of which the first one builds it
    built, repaired = folder / "wheel", folder / "dist"
    with FileLock(folder / "wheel.lock"):
        if not repaired.exists():
            command = ("pip", "wheel", "--no-build-isolation", "--no-deps", "-w", built, ".")
            has_cuda_kernels = str(int(_libraries.CUDA_LIBRARY.exists()))
            code, text = run(sys.executable, "-m", *command, TORCH_DML_OPS_CUDA=has_cuda_kernels)
            assert code == 0, text
            repaired.mkdir()
            code, text = run(sys.executable, "tests/tools/name_wheel.py", *built.glob("*.whl"), repaired)
            assert code == 0, text
    (result,) = repaired.glob("*.whl")
    return result


@pytest.mark.thorough
@needs_nvcc
@needs_cuda_kernels
def test_one_wheel_holds_both_libraries_and_serves_every_cpython(wheel, tmp_path):
    tag = rf"cp310-abi3-(manylinux_2_\d+|linux)_{platform.machine()}"  # by the compiler; a release has to be 2_28
    assert re.fullmatch(rf"torch_dml_ops-{re.escape(torch_dml_ops.__version__)}-{tag}\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"torch_dml_ops/_C.abi3.so", "torch_dml_ops/_C_cuda.abi3.so", "torch_dml_ops/py.typed"} <= set(names)
    assert all(name.startswith("torch_dml_ops") for name in names)  # the package and its metadata
    assert not any("ptxas" in name for name in names)
    # Installed elsewhere, it works: import, an operator, and what it says of itself.
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    program = (
        "import torch, torch_dml_ops as dml, sys; assert dml.__file__.startswith(sys.argv[1]); "
        "print(dml.slice1(torch.arange(6), [0], [6], [-2]).tolist())"
    )
    command = (sys.executable, "-c", program, installed)
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(installed)) == (0, "[5, 3, 1]\n")


@pytest.mark.thorough
def test_wheel_uses_only_what_every_cpython_has(wheel):
    code, text = run(Path(sys.executable).parent / "abi3audit", "--strict", "--report", wheel)
    assert code == 0, text
    (spec,) = json.loads(text)["specs"].values()
    in_wheel = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")}
    assert {library["name"] for library in spec["wheel"]} == in_wheel
    for library in spec["wheel"]:
        assert library["result"]["is_abi3"], library
        assert library["result"]["is_abi3_baseline_compatible"], library


@pytest.mark.thorough
def test_build_without_nvcc_and_headers_of_python(source_copy):
    # auto finds no nvcc where the PATH has none, says so, and builds for the CPU alone. Nor is there a git.
    bare = source_copy / "bin"
    bare.mkdir()
    of_python = {shlex.split(sysconfig.get_config_var(name))[0] for name in ("CC", "CXX", "LDSHARED", "LDCXXSHARED")}
    for tool in {"gcc", "cc", "ld", "as", "ninja", "uname", "sh", "which"} | of_python - {"c++", "g++"}:
        if found := shutil.which(tool):
            (bare / tool).symlink_to(found)
    for name in ("c++", "g++"):  # where there is no Python.h
        compiler = Path(unoptimized(name, bare / name))
        no_header = 'case "$*" in *Python.h*) echo "Python.h: No such file" >&2; exit 1; esac'
        compiler.write_text(compiler.read_text().replace("\n", f"\n{no_header}\n", 1))
    environment = {"PATH": f"{bare}:{Path(sys.executable).parent}", "CUDA_HOME": "", "TORCH_DML_OPS_CUDA": "auto"}
    # Debian's Python has the linker look here first.
    systems = Path(run("g++", "-print-file-name=libdl.so.2")[1].strip()).parent
    environment["LDFLAGS"] = f"-L{systems}"
    code, text = run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=source_copy, **environment)
    assert code == 0, text
    assert "building for the CPU alone (no nvcc was found)" in text
    assert [library.name for library in (source_copy / "torch_dml_ops").glob("*.so")] == ["_C.abi3.so"]
    program = (
        "import torch, torch_dml_ops as dml; from torch_dml_ops.__main__ import report\n"
        "print(dml.slice1(torch.arange(6), [0], [6], [-2]).tolist(), report()['calls'])\n"
    )
    why = "this build had no Python headers (on Debian, apt install python3-dev; build again)"
    assert run(sys.executable, "-c", program, cwd=source_copy, PYTHONPATH="") == (
        0,
        f"[5, 3, 1] ordinary way only: {why}\n",
    )
    # A CUDA tensor would meet this. Here the CPU's stands in for it: the dispatch key decides.
    program = (
        "import torch; torch.ops.load_library('torch_dml_ops/_C.abi3.so')\n"
        "key = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)\n"
        "ops, x = torch.ops.torch_dml_ops, torch.arange(6.)\n"
        "for call in (lambda: ops.slice1.default.redispatch(key, x, [0], [6], [1]),\n"
        "             lambda: ops.join.out.redispatch(key, [x], 0, out=x)):\n"
        "    try: call()\n"
        "    except RuntimeError as error: print(error)\n"
    )
    code, text = run(sys.executable, "-c", program, cwd=source_copy)
    sentence = (
        "torch_dml_ops: this build has no CUDA kernels; build it where nvcc is on the PATH (TORCH_DML_OPS_CUDA=1), or "
        "move the tensors to the CPU\n"
    )
    assert (code, text) == (0, 2 * sentence)

    environment["TORCH_DML_OPS_CUDA"] = "1"
    code, text = run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=source_copy, **environment)
    assert code != 0
    assert "TORCH_DML_OPS_CUDA=1 needs nvcc, and none was found: install the CUDA toolkit" in text


TO_BUILD = "torch_dml_ops: to build needs"
ALL_TOOLS = "in this environment: pip install 'setuptools>=77' wheel ninja 'torch>=2.11', then pip install"
REFUSED_BUILDS = {  # by what there is before, in Python and in the environment
    **{
        f"no {tool}": (f"sys.modules[{tool!r}] = None", {}, f"{TO_BUILD} {tool} {ALL_TOOLS} --no-build-isolation .")
        for tool in ("setuptools", "torch")
    },
    "no compiler": (
        "",
        {"CXX": "no-such-compiler -O1"},
        f"{TO_BUILD} a C++ compiler, and no-such-compiler was not found: install g++ 11 or later (on Debian: apt "
        "install g++), or name another by CXX",
    ),
    "another system": (
        "import platform, torch.utils.cpp_extension; platform.system = lambda: 'Darwin'",
        {},
        "torch_dml_ops is built on Linux, and not yet on Darwin: build it there in a container, as by Containerfile, "
        "or on Windows in WSL",
    ),
    "an unknown choice": ("", {"TORCH_DML_OPS_CUDA": "yes"}, "TORCH_DML_OPS_CUDA must be auto, 0 or 1, got 'yes'"),
    "no toolkit": (
        "",
        {"TORCH_DML_OPS_CUDA": "auto", "CUDA_HOME": "/no/cuda"},
        "CUDA_HOME must be the folder of a CUDA toolkit, and /no/cuda has no bin/nvcc",
    ),
}


SETUP = """
import importlib.util, sys
sys.argv, sys.dont_write_bytecode = ["setup.py", "--version"], True

def run_setup():
    spec = importlib.util.spec_from_file_location("setup", "setup.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""


def set_up(before: str, **environment: str) -> tuple[int, str]:
    return run(sys.executable, "-c", f"{SETUP}\n{before}\nrun_setup()", **environment)


@pytest.fixture
def toolkit(tmp_path):
    """With files in place of CUDA's, of the size of programs."""
    folder = tmp_path / "toolkit"
    for file in ("bin/nvcc", "include/cuda_runtime.h", "lib64/none"):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_bytes(bytes(20_000))
    (folder / "bin" / "nvcc").chmod(0o755)
    return folder


@pytest.mark.parametrize(("before", "environment", "sentence"), REFUSED_BUILDS.values(), ids=REFUSED_BUILDS)
def test_build_refuses_in_one_sentence(before, environment, sentence):
    code, text = set_up(before, **environment)
    said = [line for line in text.splitlines() if "No CUDA runtime is found" not in line]  # by builds of torch for it
    assert (code, said) == (1, [sentence])


@pytest.mark.parametrize(
    ("cuda", "choice", "said"),
    [
        (None, "auto", "for the CPU alone (this torch has no CUDA; TORCH_DML_OPS_CUDA=1 builds kernels for one that"),
        (None, "1", "CUDA kernels with "),
        ("13.0", "auto", "CUDA kernels with "),
        ("13.0", "0", "for the CPU alone (TORCH_DML_OPS_CUDA=0)"),
    ],
)
def test_nobody_waits_for_kernels_that_are_not_loaded(cuda, choice, said, toolkit):
    before = f"import torch.version; torch.version.cuda = {cuda!r}"
    code, text = set_up(before, CUDA_HOME=str(toolkit), TORCH_DML_OPS_CUDA=choice)
    assert code == 0, text
    assert f"torch_dml_ops: building {said}" in text


COMPILES_NOTHING = """
import shlex, subprocess, sys
from pathlib import Path
here, (name, *arguments) = Path(__file__).parent, sys.argv[1:]
if "-o" in arguments:
    with open(here / "commands", "a") as file:
        print(shlex.join([name, *arguments]), file=file)
if "-c" in arguments:
    to, source = (arguments[arguments.index(option) + 1] for option in ("-o", "-c"))
    if name == "nvcc":
        print(f"ptxas info : Compiling entry function '{Path(source).stem}' for 'sm_90'", file=sys.stderr)
    arguments = ["-fPIC", "-c", here / "any.c", "-o", to]
sys.exit(subprocess.run(["gcc" if "-c" in arguments else "g++", *arguments]).returncode)
"""


def test_a_build_by_compilers_that_compile_nothing(source_copy: Path, toolkit: Path, tmp_path: Path) -> None:
    """Each source is compiled for its libraries, which are linked as they are to be, and again where a header is newer:
    all of a build but what takes its time."""
    (tmp_path / "any.c").write_text(
        "int dladdr(), of_cudart();\n__attribute__((weak)) int unseen() { return dladdr() + of_cudart(); }\n"
    )
    (tmp_path / "compiler.py").write_text(COMPILES_NOTHING)
    for path, name in ((tmp_path / "c++", "c++"), (toolkit / "bin" / "nvcc", "nvcc")):
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "compiler.py"} {name} "$@"\n')
        path.chmod(0o755)
    (tmp_path / "of_cudart.c").write_text("int of_cudart() { return 0; }\n")
    assert run("gcc", "-fPIC", "-c", "of_cudart.c", cwd=tmp_path)[0] == 0
    assert run("ar", "qc", toolkit / "lib64" / "libcudart_static.a", tmp_path / "of_cudart.o")[0] == 0
    environment = {"CXX": str(tmp_path / "c++"), "CUDA_HOME": str(toolkit), "TORCH_DML_OPS_CUDA": "1"}

    def built() -> list[tuple[str, str, list[str]]]:
        """The compiler of each object, what it makes, and its arguments."""
        (tmp_path / "commands").write_text("")
        environment["TORCH_CUDA_ARCH_LIST"] = "9.0;12.0+PTX"
        code, text = run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=copy, **environment)
        assert code == 0, text
        commands = [shlex.split(line) for line in (tmp_path / "commands").read_text().splitlines()]
        return [(name, arguments[arguments.index("-o") + 1], arguments) for name, *arguments in commands]

    copy = tmp_path / "copy"
    shutil.copytree(source_copy, copy, ignore=shutil.ignore_patterns("build", "*.so"))
    made = built()
    compiled = [(name, str(Path(to).relative_to(copy / "build")), given) for name, to, given in made if "-c" in given]
    sources = {str(path.relative_to(copy).with_suffix(".o")) for path in copy.glob("csrc/**/*.c[pu]*")}
    both = {f"csrc/{file}" for file in ("library.o", *(f"ops/{path.stem}.o" for path in copy.glob("csrc/ops/*.cpp")))}
    of_each = {
        "_C": {s for s in sources if "cuda" not in s and "csrc/python" not in s},
        "_fast_calls": {s for s in sources if "csrc/python" in s},
        "_C_cuda": {s for s in both if "execute_cpu" not in s} | {s for s in sources if "kernels/cuda" in s},
    }
    assert {*itertools.chain(*of_each.values())} == sources
    assert sorted(to for _, to, _ in compiled) == sorted(
        f"torch_dml_ops.{library}/{s}" for library, objects in of_each.items() for s in objects
    )
    for name, to, given in compiled:
        assert (name == "nvcc") == ("kernels/cuda" in to)
        assert (f"-I{toolkit / 'include'}" in given) == to.startswith("torch_dml_ops._C_cuda")
        gpus = {"arch=compute_90,code=sm_90", "arch=compute_120,code=sm_120", "arch=compute_120,code=compute_120"}
        generated = {option for word in given for option in re.findall(r"arch=compute_\w+,code=\w+", word)}
        assert generated == (gpus if name == "nvcc" else set())
    lines = (copy / "build" / "ptxas.txt").read_text().splitlines()
    assert lines == ["not understood: 1 kernels"] * sum(name == "nvcc" for name, _, _ in compiled)
    oldest = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}.get(platform.machine())
    libraries = {path.name.partition(".")[0]: path for path in (copy / "torch_dml_ops").glob("*.so")}
    assert {*libraries} == {*of_each}
    for path in libraries.values():
        assert run("nm", path)[1].endswith("no symbols\n")
        assert run("nm", "-D", "--defined-only", path) == (0, "")
        if oldest and platform.libc_ver()[0] == "glibc":
            assert f" dladdr@{oldest}\n" in run("nm", "-D", path)[1]
        assert (" of_cudart\n" in run("nm", "-D", path)[1]) == ("cuda" not in path.name)
        assert "libtorch.so" in run("readelf", "-d", path)[1]

    (copy / "csrc" / "kernels" / "cuda" / "device.h").touch()
    again = [(name, to) for name, to, given in built() if "-c" in given]
    assert sorted(again) == sorted((name, to) for name, to, given in made if name == "nvcc")


@pytest.mark.parametrize("is_script", [True, False], ids=["a script that calls it", "itself"])
def test_the_toolkit_is_that_of_the_nvcc_on_the_path(is_script: bool, toolkit: Path, tmp_path: Path) -> None:
    on_path = tmp_path / "nvcc" if is_script else toolkit / "bin" / "nvcc"
    if is_script:
        on_path.write_text(f'#!/bin/sh\nexec "{toolkit}/bin/nvcc" "$@"\n')
        on_path.chmod(0o755)
    variables = {"PATH": f"{on_path.parent}:{os.environ['PATH']}", "CUDA_HOME": "", "TORCH_DML_OPS_CUDA": "1"}
    code, text = set_up("", **variables)
    assert code == 0, text
    assert f"torch_dml_ops: building CUDA kernels with {toolkit}" in text


def test_an_nvcc_without_the_headers_of_cuda_is_no_toolkit(tmp_path: Path) -> None:
    (tmp_path / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "nvcc").chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_HOME": "", "TORCH_DML_OPS_CUDA": "auto"}
    code, text = set_up("", **variables)
    assert code == 0, text
    assert "building for the CPU alone (no nvcc was found)" in text


def test_what_a_build_without_headers_of_python_lacks() -> None:
    before = "import sysconfig; get = sysconfig.get_config_var; sysconfig.get_path = lambda *name, **scheme: '/none'\n"
    before += "sysconfig.get_config_var = lambda name: '/none' if name == 'INCLUDEPY' else get(name)"
    code, text = set_up(before, TORCH_DML_OPS_CUDA="0")
    assert code == 0, text
    sentence = "Python.h was not found; install Python's headers (on Debian: apt install python3-dev) and build again"
    assert f"small calls take several times as long: {sentence}\n" in text


@pytest.mark.parametrize(("tool", "oldest"), [("torch", "2.11"), ("setuptools", "77")])
def test_versions_are_in_the_order_of_their_numbers(tool, oldest):
    """Those before a release, of which torch's own are built too, count as the release."""
    numbers, ends = (
        (2, 9, 10, 11, 12, 76, 77, 100),
        itertools.cycle(("", "rc1", "a0+git1f", ".dev2", ".post1", "+cpu", ".1")),
    )
    releases = itertools.chain(itertools.product(numbers), itertools.product(numbers, numbers))
    versions = [".".join(map(str, release)) + next(ends) for release in releases]
    program = f"""{SETUP}
import setuptools, torch.version
for version in sys.stdin.read().split():
    {"setuptools" if tool == "setuptools" else "torch.version"}.__version__ = version
    try:
        run_setup()
    except SystemExit as refused:
        print(f"{TO_BUILD} {tool} {oldest} or later, got {{version}}: pip install '{tool}>={oldest}'" == str(refused))
"""
    environment = os.environ | {"CXX": "no-such-compiler"}  # which is looked for next
    command = [sys.executable, "-c", program]
    printed = subprocess.check_output(command, input="\n".join(versions), env=environment, cwd=ROOT, text=True)
    expected = [str(Version(Version(v).base_version) < Version(oldest)) for v in versions]
    assert dict(zip(versions, printed.split(), strict=True)) == dict(zip(versions, expected, strict=True))


def test_unknown_simd_level_is_refused():
    """A second attempt too: the first one leaves nothing half-imported."""
    program = "for _ in range(2):\n  try: import torch_dml_ops\n  except ImportError as error: print(error)"
    *others, highest = _libraries.simd_levels()
    sentence = f"TORCH_DML_OPS_SIMD must be {', '.join(others)} or {highest}, got 'sse4'\n"
    assert run(sys.executable, "-c", program, TORCH_DML_OPS_SIMD="sse4") == (0, 2 * sentence)


def test_every_simd_level_is_documented_and_can_be_chosen():
    levels = _libraries.simd_levels()
    assert levels[0] == "baseline"
    (row,) = re.findall(r"^\| `TORCH_DML_OPS_SIMD` \| (.*?): ", (ROOT / "docs" / "building.md").read_text(), re.M)
    assert re.findall(r"`(\w+)`", row) == levels
    program = "from torch_dml_ops import _libraries; print(_libraries.simd_level())"
    chosen = [run(sys.executable, "-c", program, TORCH_DML_OPS_SIMD=level)[1].strip() for level in levels]
    best = levels.index(chosen[-1])  # the processor's highest; it stands for those above it
    assert chosen == [*levels[:best], *[levels[best]] * (len(levels) - best)]
    assert _libraries.simd_level() in chosen


def test_import_of_a_source_tree_that_is_not_built_says_what_to_do(source_copy, tmp_path):
    package = tmp_path / "torch_dml_ops"
    shutil.copytree(source_copy / "torch_dml_ops", package, ignore=shutil.ignore_patterns("*.so"))
    code, text = run(sys.executable, "-c", "import torch_dml_ops", cwd=tmp_path)
    assert code != 0
    assert f"torch_dml_ops is not built in {tmp_path}: run `pip install --no-build-isolation -e .`" in text


@needs_cuda_kernels
def test_default_architectures():
    if "TORCH_CUDA_ARCH_LIST" in os.environ:
        pytest.skip("TORCH_CUDA_ARCH_LIST chooses the architectures here")
    assert _libraries.cuda_architectures() == "8.0;9.0;10.0;12.0+PTX"


def test_report():
    lines = report()
    assert lines["torch_dml_ops"] == torch_dml_ops.__version__
    assert lines["torch"] == torch.__version__
    assert lines["SIMD level"] == _libraries.simd_level()
    code, text = run(sys.executable, "-m", "torch_dml_ops", TORCH_DML_OPS_SIMD="baseline")
    assert code == 0, text
    assert re.search(r"SIMD level +baseline\n", text)
    code, text = run(sys.executable, "-W", "ignore", "-m", "torch_dml_ops")  # of torch's modules without free threading
    assert [re.split(r"\s{2,}", line) for line in text.splitlines()] == [list(item) for item in lines.items()]


@pytest.mark.parametrize(
    ("architectures", "cuda", "loaded", "line"),
    [
        (None, None, False, "none, as this torch is built without CUDA"),
        (
            None,
            "13.0",
            False,
            "none in this build (build with TORCH_DML_OPS_CUDA=1, nvcc on the PATH or CUDA_HOME set)",
        ),
        ("9.0", None, False, "compiled for 9.0; not loaded, as this torch is built without CUDA"),
        ("9.0", "13.0", True, "compiled for 9.0"),
    ],
)
def test_report_on_cuda_kernels(
    architectures: str | None, cuda: str | None, loaded: bool, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(_libraries, "cuda_architectures", lambda: architectures)
    monkeypatch.setattr(_libraries, "cuda_kernels_loaded", loaded)
    assert report()["CUDA kernels"] == line


def test_the_matrix_installs_what_the_tests_import() -> None:
    pytest.importorskip("tomllib", reason="the matrix is started on Python 3.11 or later")
    names = {re.split("[=<>; ]", requirement)[0] for requirement in matrix.requirements()}
    assert {"hypothesis", "ipywidgets", "matplotlib", "numpy", "onnxruntime", "pytest", "sktime", "tqdm"} <= names
    assert names.isdisjoint({"onnx2torch", "sphinx", "torch", "torch_dml_ops"})  # two of which bring another torch


def test_an_environment_of_somebody_else_is_kept(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (theirs := tmp_path / ".venv" / "bin").mkdir(parents=True)
    result = subprocess.run(["make", ".venv/base"], cwd=tmp_path, capture_output=True, text=True)
    assert "error: .venv is not one that make began; remove it, or choose" in result.stdout
    assert theirs.is_dir()


def test_a_choice_for_the_build_holds_until_there_is_another(tmp_path: Path) -> None:
    """`TORCH_DML_OPS_CUDA=0 make demo` says nothing about CUDA to a later `make test`, which builds what there is."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "base").touch()
    unset = {name: value for name, value in os.environ.items() if name not in ("TORCH_DML_OPS_CUDA", "MAKEFLAGS")}
    choice = tmp_path / ".venv" / "choice"
    for given, built in [
        ({}, ""),
        ({"TORCH_DML_OPS_CUDA": "0"}, "0"),
        ({}, "0"),
        ({"TORCH_DML_OPS_CUDA": "auto"}, "auto"),
    ]:
        before = choice.stat().st_mtime_ns if choice.exists() else None
        command = ["make", "-s", "--no-print-directory", ".venv/choice"]
        subprocess.run(command, cwd=tmp_path, env=unset | given, check=True)
        assert choice.read_text().startswith(f"TORCH_DML_OPS_CUDA={built}\n")
        changed = choice.stat().st_mtime_ns != before
        assert changed == (given != {} or before is None)  # else nothing is built again
