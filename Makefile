# What people type. `make` lists the targets; `make check` is what CI runs on every change.
GO       ?= go
TOOL     := $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 10s
COUNT    ?= 6
SEEDS    ?= 10000
BASELINE ?= bench/baseline.txt

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

.PHONY: check
check: fmt-check vet lint tidy-check fix-check generate-check race fuzz sim-short ## everything a change must pass

.PHONY: test
test: ## unit tests, and the kernel tests when run as root
	$(GO) test ./...

.PHONY: race
race: ## the same under the race detector, in random order
	$(GO) test -race -shuffle=on ./...

.PHONY: root
root: ## the tests that need root, and fail if all of them were skipped
	@test "$$(id -u)" = 0 || { echo "make root: needs root: network namespaces, XDP programs and AF_XDP sockets" >&2; exit 1; }
	$(GO) test -count=1 -v ./bpf/... ./xdp/... ./internal/... ./nd/... ./bench/... ./cmd/... > .root.log 2>&1 || { cat .root.log; rm -f .root.log; exit 1; }
	@grep -E '^(ok|FAIL|--- SKIP)' .root.log; \
	passed=$$(grep -c '^ *--- PASS' .root.log); skipped=$$(grep -c '^ *--- SKIP' .root.log); rm -f .root.log; \
	echo "$$passed passed, $$skipped skipped"; test "$$passed" -gt 0

.PHONY: conformance
conformance: ## the test of every status of every method, and the matrix of them (root)
	$(GO) test -count=1 -run '^TestConformance' ./nd/...
	$(GO) test -count=1 ./internal/conformance
	@sed -n '/^| family/,/^$$/p' docs/CONFORMANCE.md

.PHONY: mutants
mutants: ## break the code place by place, and see that a test notices: all of internal/mutants, or ID=REGEXP (root for some)
	$(GO) run ./internal/mutants -id '$(or $(ID),.)'

.PHONY: lab-test
lab-test: ## figures on a real kernel, hosts around a router with a bottleneck, medians against bounds (root, quiet machine)
	@test "$$(id -u)" = 0 || { echo "make lab-test: needs root: network namespaces, AF_XDP sockets and tc programs" >&2; exit 1; }
	$(GO) test -count=1 -run '^$$' -bench . -benchtime 5x ./bench/lab

.PHONY: perf
perf: ## ndperf between two namespaces, beside raw AF_XDP and kernel TCP (root)
	$(GO) run ./cmd/ndperf veth

.PHONY: lab-vm
lab-vm: ## the same between two virtual machines, beside TCP, SoftRoCE and soft-iWARP, impaired too (root; docs/LAB.md)
	vagrant/vm.sh

.PHONY: figures
figures: ## the sweep, the page, and the plots of docs/PERFORMANCE.md, in about two minutes on a quiet machine (root)
	$(GO) run ./cmd/ndperf sweep
	$(GO) run ./cmd/ndperf report --svg docs/img ndperf-sweep.json

.PHONY: bench
bench: ## benchmarks, compared with $(BASELINE) through benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bench/latest.out
	@if test -f $(BASELINE); then $(TOOL) benchstat $(BASELINE) bench/latest.out; \
	else echo "no $(BASELINE) yet: keep this run with: cp bench/latest.out $(BASELINE)"; fi

.PHONY: generate
generate: ## compile the XDP program and every other generated file
	$(GO) generate ./...

.PHONY: lint
lint: ## golangci-lint, shellcheck for the scripts, vagrant validate
	$(TOOL) golangci-lint run ./...
	shellcheck .ci/run vagrant/*.sh
	@command -v vagrant >/dev/null || { echo "make lint: vagrant is missing: apt-get install vagrant vagrant-libvirt" >&2; exit 1; }
	cd vagrant && vagrant validate --ignore-provider

.PHONY: fmt
fmt: ## format with gofumpt
	$(TOOL) gofumpt -w .

# Go's fuzzer sometimes reports its own deadline as a failure when the time is up in the middle of a run (context deadline
# exceeded, and no input written): that is the end of the time and nothing else.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$target"; \
			out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg 2>&1) || { \
				echo "$$out" | grep -q 'context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input' || { echo "$$out"; exit 1; }; \
			}; \
			echo "$$out" | grep '^fuzz:' | tail -1; \
		done; \
	done

.PHONY: sim
sim: ## the simulation: SEEDS=10000 worlds and a table of what happened, or the trace of SEED=n
	NDXDP_SIM_SEED=$(SEED) NDXDP_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./provider/sim

.PHONY: sim-short
sim-short: ## what of it fits into a check, and the congestion scenarios
	NDXDP_SIM_SEEDS=1000 $(GO) test -count=1 ./provider/sim

.PHONY: sim-soak
sim-soak: ## the simulation, other seeds every time, until stopped
	$(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./provider/sim -sim.soak

.PHONY: clean
clean: ## remove what builds and runs leave in the tree
	rm -rf bin ndperf bench/latest.out .root.log ndperf-sweep.json ndperf-report.html
	$(GO) clean -testcache

.PHONY: fmt-check
fmt-check:
	@out=$$($(TOOL) gofumpt -l .); test -z "$$out" || { echo "not formatted (make fmt):" >&2; echo "$$out" >&2; exit 1; }

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff

.PHONY: fix-check
fix-check:
	$(GO) fix -diff ./...

.PHONY: generate-check
generate-check: generate
	git diff --exit-code
