# Everything here can be done with the garboard command too; make only saves typing.
# `make help` lists the targets.

GO ?= go
ARCH ?= amd64
RECIPE ?= recipes/node.yaml
ARGS ?=

# go run caches what it builds; the program finds the repository from where it is started.
GARBOARD = $(GO) run ./cmd/garboard

.DEFAULT_GOAL := help
.PHONY: help build run check test test-full chaos bench lock fuzz repro release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

bin/garboard: FORCE
	@mkdir -p bin
	@$(GO) build -o $@ ./cmd/garboard
FORCE:

build: bin/garboard ## build the image of RECIPE for ARCH (amd64, arm64 or all) into out/
	bin/garboard build $(RECIPE) --arch $(ARCH) $(ARGS)

run: bin/garboard ## build the node and boot it in QEMU, console on the terminal; ctrl-C presses the power button
	@bin/garboard run $(RECIPE) --arch $(ARCH) $(ARGS)

check: bin/garboard ## formatting, vet, and unit tests with the race detector: seconds
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt -w is needed on:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./init/... ./socket/... ./images/...
	bin/garboard test unit

test: check ## all tests: unit, patched components, nodes booted in QEMU
	bin/garboard test components node $(ARGS)
	bin/garboard repro $(RECIPE) $(ARGS)

repro: bin/garboard ## build RECIPE twice in different circumstances; the outputs must be identical (ARGS=--components: the kubelet too)
	bin/garboard repro $(RECIPE) --arch $(ARCH) $(ARGS)

test-full: test fuzz ## make test, then what CI has no time for: longer fuzzing, long node tests, the small setting
	bin/garboard test node --long --run '^TestVMLong' $(ARGS)
	bin/garboard build $(RECIPE) --arch all --small
	bin/garboard test kernels

N ?= 20
chaos: bin/garboard ## N power cuts (20) at random moments, with kills and shutdowns among them; prints what was lost
	bin/garboard chaos --cuts $(N) --arch $(ARCH) $(ARGS)

bench: bin/garboard ## measure boots, sizes and builds (docs/benchmarks.md)
	bin/garboard bench --arch $(ARCH) $(ARGS)

lock: bin/garboard ## resolve every input anew and show the difference
	bin/garboard lock

FUZZTIME ?= 30s
fuzz: ## run every fuzz target for FUZZTIME
	@set -e; $(GO) list ./... | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "fuzz $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; done; done

release: bin/garboard ## everything for both architectures into dist/, compressed hard, with checksums, licences, sources list, signature
	bin/garboard release $(ARGS)

clean: ## remove out/ and bin/ (the cache stays: ~/.cache/garboard)
	rm -rf out bin
