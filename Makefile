# goccl's tasks. `make test` is all that a fresh clone on a machine with Go needs; it installs what it lacks.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-builtin-rules
# libgoccl.so must not tell where it was built, and is linked without debug information, which a sixth of the time of
# compilers goes to. Everything else is built likewise: what differs in this would all be compiled twice, Go's library
# too. A debugger needs a build by go itself.
BUILD   := -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(BUILD),$(GOFLAGS)) $(BUILD)

GO       ?= go
# Tests and linters use the code that libgoccl.so consists of, position independent: other code would all be compiled
# once more. Only the race detector's differs.
SHARED   := GOFLAGS='$(GOFLAGS) -buildmode=pie'
GOPIE     = $(SHARED) $(GO)
# Compilers and linkers collect garbage rarely: that is a tenth of their time. Tests collect it as usual.
RARELY   := -toolexec 'env GOGC=400'
TOOLS    := .tools
VENV     := .venv
# Launchers of MPI that were installed for the tests; the machine's own come first.
export PATH := $(PATH):$(CURDIR)/$(VENV)/bin:$(CURDIR)/$(TOOLS)/mpich/bin
LINT     := $(TOOLS)/bin/lint
# A version is asked for only where something is linked with it.
VERSION   = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   = -s -w -X github.com/goccl/goccl/internal/buildinfo.version=$(VERSION)
GOFILES   = $(shell find . -name '*.go' -not -path './$(TOOLS)/*' -not -path './build/*' -not -path './.venv/*')

# The modules of go.work. A pattern such as ./... does not go from one into another.
PACKAGES  = ./... ./cmd/goccl/... ./watch/metrics/...
# The linters' module is not among them.
ALONE     = cd tools/lint && GOWORK=off $(GOPIE)

# Packages that share memory between goroutines. Their tests run under the race detector, with -short; the ones that are
# shorter there run again without it. All other packages run without it only. The packages that take longest come first:
# the others run beside them.
RACE = test/hosts test/contract test/faults plan/executor job engine primitive transport test/verdict collective \
       capi/internal/core device cmd/goccl/internal/doctor cmd/goccl/internal/perf internal/driver internal/fdshare \
       internal/futex internal/wait test/gpu test/mockcuda test/moe test/netfake test/nettest \
       test/ranks test/soak test/commtest
RACE_PACKAGES = $(RACE:%=./%/...)
GOTEST = test -vet=off -timeout 20m $(RARELY)
# The field arithmetic of handshakes works on the variables of one goroutine. With a look at each access, joining takes
# twice as long.
FIELD   = crypto/internal/fips140/edwards25519/field
UNRACED = -gcflags=all=-dwarf=false -gcflags='$(FIELD)=-race=false -dwarf=false'

.PHONY: help test rdma check fmt lint vet build race plain again unit fuzz parsers soak kernels-check generate tools
.PHONY: gpu-bundle clean tidy

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Half of the time of many tests is waits, and linters use one core now and then, so two targets run at once. Nothing
# that race compiles is compiled by another, which would do so at the same time.
test: ## all that needs no GPU. GOCCL_FULL=1: also what takes long, all of unit, and every fuzz target
	@$(MAKE) --no-print-directory system
	@$(MAKE) --no-print-directory -j2 tools build
	@$(MAKE) --no-print-directory -j2 race check python-test kernels-check $(if $(GOCCL_FULL),unit,plain again)
	@if [ -n "$${GOCCL_FULL-}" ]; then $(MAKE) --no-print-directory fuzz; fi

rdma: libgoccl ## the tests that need RDMA adapters, by software RDMA in virtual machines (x86-64, Debian's packages)
	@tools/rdma/install.sh
	@tools/rdma/run.sh

tools: system $(LINT) nvrtc $(TOOLS)/mpich/ready ## install what the other targets call

.PHONY: system nvrtc
system:
	@tools/install.sh

nvrtc: $(VENV)/ready
	@PYTHON=$(VENV)/bin/python kernels/install-nvrtc.sh

# Linters have a module of their own, so that their dependencies are not ours.
$(LINT): $(wildcard tools/lint/go.* tools/lint/*.go tools/lint/nocgo/*.go)
	@mkdir -p $(@D)
	$(ALONE) build $(RARELY) -o ../../$(@D)/ . ./nocgo

check: fmt lint ## gofmt, and lint with all that go vet looks for

fmt:
	@out="$$(gofmt -l $(GOFILES))"; if [ -n "$$out" ]; then echo "not gofmt'ed; run gofmt -w on:"; echo "$$out"; exit 1; fi

vet: ## go vet, which lint does as well
	$(GO) vet $(PACKAGES)

lint: $(LINT) ## every linter of .golangci.yaml, by tools/lint; sentences of comments, by tools/lint/prose
	GOGC=300; export GOGC; $(ALONE) test -vet=off ./...
	$(ALONE) run ./prose ../..
	$(SHARED) GOGC=300 GOMEMLIMIT=3GiB $(LINT) $(PACKAGES) # collections of garbage are a quarter of its time

# go build would link every program as well, each time.
build: $(LINT) ## compile every package with cgo, and check the types of all without
	$(GOPIE) list -export $(RARELY) $(PACKAGES) >/dev/null
	GOGC=300 $(TOOLS)/bin/nocgo $(PACKAGES)

kernels-check: ## compare the committed kernels with their sources; GOCCL_FULL=1: rebuild all architectures
	@if [ -d tools/kernels ]; then set -x; $(GOPIE) run ./tools/kernels -check; fi

# A program of the race detector sleeps for a second before it exits: each rank of a job is one. And it maps the shadow
# of each new buffer of 64 KiB or more anew, whose pages then fault one by one: clearing takes a fifth of that time.
race: export GORACE ?= atexit_sleep_ms=10 clear_shadow_mmap_threshold=67108864
race: ## the tests of the concurrent packages under the race detector
	$(GO) $(GOTEST) -race $(UNRACED) -short -parallel 4 $(RACE_PACKAGES)

plain unit: libnccl libmscclpp libprofiler # which tests of capi load
plain: ## the tests of the packages that race leaves out
	all=$$($(GO) list ./kernels/internal/hosttest ./capi ./test/chaos $(PACKAGES)); \
		raced=$$($(GO) list $(RACE_PACKAGES)); $(GOPIE) $(GOTEST) $$(grep -vxF "$$raced" <<<"$$all")

again: ## the tests that race shortens, in their usual form
	tests=$$($(GOPIE) run ./test/again $(RACE)); eval "$(GOPIE) $(GOTEST) $$tests"

unit: ## all tests without the race detector; GOCCL_FULL=1: also the long ones
	$(GOPIE) $(GOTEST) ./kernels/internal/hosttest ./test/hosts ./plan/executor ./test/faults $(PACKAGES)

FUZZTIME ?= 10s
FUZZ_PACKAGES = $(shell grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' --exclude-dir=$(TOOLS) --exclude-dir=build \
                        --exclude-dir=.venv . | xargs -n1 dirname | sort -u)

fuzz: ## every fuzz target, for FUZZTIME (10s) each
	@for p in $(FUZZ_PACKAGES); do \
		targets=$$($(GO) test -vet=off -list '^Fuzz' $$p | grep '^Fuzz'); \
		for f in $$targets; do \
			echo "$$p $$f"; \
			$(GO) test -vet=off -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; \
		done; \
	done

INPUTS ?= 10000000
parsers: ## INPUTS (10^7) mutated inputs for every fuzz target, within PARSERTIME (10m); build/parsers/fuzz.json
	@mkdir -p build/parsers
	@for p in $(FUZZ_PACKAGES); do \
		n=$$(echo $$p | sed 's,^\./*,,; s,/,.,g'); \
		$(GO) test -vet=off -c -o build/parsers/$${n:-goccl}.test $$p; \
	done
	$(GO) run ./test/mutate/farm -dir build/parsers -inputs $(INPUTS) -for $(or $(PARSERTIME),10m) \
		-json build/parsers/fuzz.json

soak: ## tutorials 01 to 04, 200 times: none may hang or leave anything behind
	GOCCL_SOAK=1 $(GO) test -run TestSoak -timeout 60m -v ./test/soak

generate: tools ## build the kernels and everything else that is generated
	$(GO) generate $(PACKAGES)

gpu-bundle: libgoccl libnccl libmscclpp libprofiler ## gather in build/gpu/ what a GPU host without Go needs
	bench/bundle.sh "$(LDFLAGS)"

# The tool's go.mod requires releases, which are this tree here as in go.work.
RELEASE = github.com/goccl/goccl
tidy: ## go mod tidy of every module
	GOWORK=off $(GO) mod tidy
	cd watch/metrics && GOWORK=off $(GO) mod tidy
	cd cmd/goccl && $(GO) mod edit -replace=$(RELEASE)=../.. -replace=$(RELEASE)/watch/metrics=../../watch/metrics && \
		GOWORK=off $(GO) mod tidy && $(GO) mod edit -dropreplace=$(RELEASE) -dropreplace=$(RELEASE)/watch/metrics

clean: ## remove what make built
	rm -rf build $(TOOLS)

# Images of kernels, compressed: the overlay makes the go command embed these in place of the committed ones.
KERNELS = build/kernels/overlay.json
$(KERNELS): $(wildcard kernels/*/*.cubin kernels/*/*.ptx) $(wildcard tools/kernels/pack/*.go)
	GOARCH= CGO_ENABLED=0 $(GOPIE) run ./tools/kernels/pack $(@D)

# The C ABI. libgoccl.so is the Go core; libnccl.so.2 is C alone and opens the core beside it at its first use.
CC ?= gcc
CAPI_GO = $(shell find . -name '*.go' -not -name '*_test.go' -not -path './$(TOOLS)/*' -not -path './build/*') go.mod \
          $(shell find kernels engine job plan -name '*.cuh' -o -name '*.hpp' -o -name '*.cubin' -o -name '*.ptx' \
          -o -name '*.json' | grep -v testdata)
NCCL_C  = $(wildcard capi/nccl/*.c)

.PHONY: libgoccl libnccl libmscclpp headers install
libgoccl: build/libgoccl.so headers ## build/libgoccl.so, the C ABI (capi/goccl.h)
libnccl: build/libnccl.so.2 libgoccl ## build/libnccl.so.2, NCCL's ABI on goccl

.PHONY: nvcc
nvcc: $(VENV)/ready ## install nvcc of PyPI's wheels in .tools, for the tests of C++ programs with kernels
	PYTHON=$(VENV)/bin/python tools/install-nvcc.sh

.PHONY: nccl-headers
nccl-headers: $(VENV)/ready ## compare nccl.h with NVIDIA's headers out of PyPI's wheel (300 MB)
	PYTHON=$(CURDIR)/$(VENV)/bin/python capi/testdata/nvidia.sh layout 2.32.3

.PHONY: device-headers
device-headers: $(VENV)/ready ## NVIDIA's headers of each NCCL with a device API in .tools, to compare layouts with
	PYTHON=$(VENV)/bin/python tools/install-nccl-headers.sh

libmscclpp: build/libmscclpp.so libgoccl ## build/libmscclpp.so, which C++ programs link: -lmscclpp

PREFIX ?= /usr/local
install: $(KERNELS)
install: libnccl libmscclpp libprofiler ## headers, libraries, the goccl program: $(DESTDIR)$(PREFIX), or /usr/local
	$(GO) build -overlay $(KERNELS) -ldflags '$(LDFLAGS)' -o build/goccl ./cmd/goccl
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin
	cp -R build/include/. $(DESTDIR)$(PREFIX)/include
	install -m 644 build/libgoccl.so build/libnccl.so.2 build/libmscclpp.so build/libgoccl-profiler.so \
		$(DESTDIR)$(PREFIX)/lib
	ln -sf libnccl.so.2 $(DESTDIR)$(PREFIX)/lib/libnccl.so
	ln -sf libmscclpp.so $(DESTDIR)$(PREFIX)/lib/libmscclpp_collectives.so
	install -m 755 build/goccl $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/share/pkgconfig $(DESTDIR)$(PREFIX)/share/cmake/goccl
	install -m 644 capi/package/*.pc $(DESTDIR)$(PREFIX)/share/pkgconfig
	install -m 644 capi/package/*.cmake $(DESTDIR)$(PREFIX)/share/cmake/goccl

.PHONY: build/goccl-static
build/goccl-static: $(KERNELS) # for the host device alone: a static program cannot open the driver
	CGO_ENABLED=0 $(GO) build -overlay $(KERNELS) -ldflags '$(LDFLAGS)' -o $@ ./cmd/goccl

.PHONY: release release-test release-check
release: ## build/release: wheels, packages, archives, static programs, sums, SBOM; from the commit at HEAD
	tools/release/release.sh build/release

release-test: ## install and run the files of build/release; build them again and compare
	tools/release/test.sh build/release

release-check: $(VENV)/ready ## sizes, the wheel, PyTorch and C++ programs of a release, in three minutes
	tools/release/check.sh

INCLUDE = build/include
headers: ## build/include, the headers for programs and kernels
	@mkdir -p $(INCLUDE)
	@cp -R kernels/include/goccl kernels/include/mscclpp capi/include/goccl capi/include/mscclpp $(INCLUDE)
	@rm -f $(INCLUDE)/goccl/layout.txt
	@cp capi/goccl.h capi/goccl_moe.h capi/goccl_primitive.h $(INCLUDE)
	@sed -e '/^#include "api.h"/{r capi/nccl/api.h' -e 'd}' capi/nccl/nccl.h >$(INCLUDE)/nccl.h

# Go's build ID is left out: the path of the version script would change it.
CORE_LINK = -Wl,--version-script=$(CURDIR)/capi/libgoccl.map -Wl,-soname,libgoccl.so
build/libgoccl.so: $(KERNELS) $(CAPI_GO) $(wildcard capi/*.c capi/*.h) capi/libgoccl.map
	@mkdir -p $(@D)
	CGO_ENABLED=1 $(GO) build -overlay $(KERNELS) -buildmode=c-shared -o $@ \
		-ldflags '$(LDFLAGS) -buildid= -extldflags "$(CORE_LINK)"' ./capi
	@rm -f build/libgoccl.h

build/libnccl.so.2: $(NCCL_C) $(wildcard capi/nccl/*.h) $(wildcard capi/*.h) capi/nccl/libnccl.map
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -fPIC -shared -o $@ $(NCCL_C) -Wl,-soname,libnccl.so.2 \
		-Wl,--version-script=capi/nccl/libnccl.map -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro -ldl -lpthread

PROFILER_C = $(wildcard capi/profiler/*.c)
.PHONY: libprofiler
libprofiler: build/libgoccl-profiler.so ## build/libgoccl-profiler.so, NCCL's profiler plugin for goccl watch
build/libgoccl-profiler.so: $(PROFILER_C) $(wildcard capi/profiler/*.h) capi/nccl/plugin.h capi/profiler/profiler.map
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -fPIC -shared -o $@ $(PROFILER_C) -Wl,-soname,libgoccl-profiler.so \
		-Wl,--version-script=capi/profiler/profiler.map -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro -lpthread

build/libmscclpp.so: capi/mscclpp/libmscclpp.c $(wildcard capi/*.h) capi/mscclpp/libmscclpp.map
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -fPIC -shared -o $@ $< -Wl,-soname,libmscclpp.so \
		-Wl,--version-script=capi/mscclpp/libmscclpp.map -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro -ldl -lpthread

# Python. What the tests need goes to .venv; torch is used when it is there.
PYTHON ?= python3
PIP     = $(VENV)/bin/python -m pip install -q --no-compile --disable-pip-version-check

.PHONY: python-test wheel
$(VENV)/ready: python/tests/requirements.txt | system
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r $<
	@touch $@

# The launcher of MPICH and its kin, beside Open MPI's in .venv: ranks started by each of them are tested.
$(TOOLS)/mpich/ready: $(VENV)/ready
	$(PIP) --no-deps --only-binary=:all: --upgrade --target $(@D) mpich
	@touch $@

python-test: $(VENV)/ready libgoccl libnccl libmscclpp ## the tests of the Python package, on the host device
	$(GOPIE) build -o build/goccl ./cmd/goccl
	$(VENV)/bin/python -m pytest python/tests | grep --line-buffered '' # whole lines, among those of other targets

wheel: $(VENV)/ready ## build/goccl-*.whl
	$(VENV)/bin/pip wheel -q --disable-pip-version-check --no-deps -w build ./python
