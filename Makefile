# What people type. `make` lists the targets; `make check` is what CI runs on every change, before it measures.
GO       ?= go
# Prints the path of a tool. The tools have a module outside of go.work, and the tools themselves must see the modules of go.work.
TOOL     := GOWORK=off $(GO) tool -n -modfile=tools/go.mod
FUZZTIME ?= 30000x
COUNT    ?= 6
SEEDS    ?= 10000
WORLDS   ?= 3
ROUNDS   ?= 5
# `work` are the packages of all modules of go.work; ./... would be those of the library alone.
PACKAGES ?= work
BASELINE ?= bench/baseline.txt

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

# What the checks call beside Go, with the Debian package that has it.
CHECK_TOOLS := clang:clang llvm-strip:llvm gcc:gcc git:git shellcheck:shellcheck vagrant:vagrant

.PHONY: check-tools
check-tools:
	@missing=; for tool in $(CHECK_TOOLS); do command -v "$${tool%:*}" >/dev/null || missing="$$missing $${tool#*:}"; done; \
	[ -z "$$missing" ] || { echo "make check: programs are missing: apt-get install$$missing" >&2; exit 1; }

.PHONY: check
check: check-tools fmt-check vet lint tidy-check fix-check generate-check cites test real-check race fuzz sim-short interleavings ## everything a change must pass

# As root nothing may be skipped for want of it.
TESTRUN := $(GO) run ./internal/testrun $(if $(filter 0,$(shell id -u)),-root) --

.PHONY: cites
cites: ## each section of PROTOCOL.md and each invariant is cited by code and by a test; lists those that are not
	$(GO) test -count=1 -run '^Test(Sections|Invariants)AreCited$$' .

.PHONY: prose
prose: ## the shares of sentences that need a second reading, and lowers their counts in testdata/prose.txt
	$(GO) test -count=1 -v -run '^TestProse$$' . -update-prose

.PHONY: test
test: ## go test of every module in go.work, the kernel tests too when run as root; says at the end what was skipped and why
	$(TESTRUN) $(TESTFLAGS) $(PACKAGES)

.PHONY: test-user
test-user: ## make test as the ordinary user UID (default 65534), of what can depend on the user (root)
	.ci/testuser $(or $(UID),65534)

# Packages without races to find: they check sources and documents, compute without goroutines, or measure other packages.
RACELESS := ndxdp$$|/wire$$|/provider/sim$$|/bench(/lab|/page)?$$|/cmd/ndperf$$|/internal/(cli|conformance|congestion|mutants|testrun)$$|/capi/test$$

.PHONY: race
race: ## the same under the race detector, in random order, without packages in which it can find nothing
	$(TESTRUN) -race -shuffle=on $$($(GO) list work | grep -vE '$(RACELESS)')

.PHONY: root
root: ## the tests that need root, not from the cache, and fail if one of them was skipped for want of it
	@test "$$(id -u)" = 0 || { echo "make root: needs root: network namespaces, XDP programs and AF_XDP sockets" >&2; exit 1; }
	$(TESTRUN) -count=1 ./bpf/... ./xdp/... ./internal/... ./nd/... ./nd/ndmetrics ./bench/... ./cmd/...

.PHONY: conformance
conformance: ## the test of every status of every method, and the matrix of them (root)
	$(GO) test -count=1 -run '^TestConformance' ./nd/...
	$(GO) test -count=1 ./internal/conformance
	@sed -n '/^| family/,/^$$/p' docs/CONFORMANCE.md

.PHONY: mutants
mutants: ## break the code place by place, and see that a test notices: all of internal/mutants, or ID=REGEXP (root for some)
	$(GO) run ./internal/mutants -id '$(or $(ID),.)'

.PHONY: walk
walk: ## count the functions, files and packages that run for one 64-byte Write
	$(GO) run ./internal/walk

.PHONY: lab-test
lab-test: ## figures on a real kernel, hosts around a router with a bottleneck, medians against bounds (root, quiet machine)
	@test "$$(id -u)" = 0 || { echo "make lab-test: needs root: network namespaces, AF_XDP sockets and tc programs" >&2; exit 1; }
	$(GO) test -count=1 -run '^$$' -bench . -benchtime 5x ./bench/lab

.PHONY: perf
perf: ## ndperf between two namespaces, beside raw AF_XDP and kernel TCP (root)
	$(GO) build -buildvcs=true -o bin/ndperf ./cmd/ndperf
	bin/ndperf veth

# The library for C, a link with the name that programs load, the header, and a file for pkg-config that names this directory.
CAPI_DIR ?= $(CURDIR)/bin

.PHONY: capi
capi: ## the library for C in CAPI_DIR (default bin): libndxdp.so, ndxdp.h and ndxdp.pc (needs gcc)
	mkdir -p $(CAPI_DIR)
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -ldflags "-extldflags '-Wl,-soname,libndxdp.so.1 -Wl,--version-script=$(CURDIR)/capi/libndxdp.map'" -o $(CAPI_DIR)/libndxdp.so ./capi
	rm -f $(CAPI_DIR)/libndxdp.h && ln -sf libndxdp.so $(CAPI_DIR)/libndxdp.so.1
	cp capi/ndxdp.h $(CAPI_DIR)/ndxdp.h
	sed -e 's|@dir@|$(CAPI_DIR)|' -e "s|@version@|$$(cat internal/buildinfo/VERSION)|" capi/ndxdp.pc.in > $(CAPI_DIR)/ndxdp.pc

FABRIC_FLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -fvisibility=hidden -fPIC

# The provider loads the library from its own directory.
.PHONY: fabric
fabric: capi ## the libfabric provider: bin/libndxdp-fi.so, beside the library for C (needs gcc, pkg-config, libfabric-dev)
	@pkg-config --exists libfabric || { echo "make fabric: libfabric or pkg-config is missing: apt-get install libfabric-dev pkg-config" >&2; exit 1; }
	gcc $(FABRIC_FLAGS) $$(pkg-config --cflags libfabric) -shared -o bin/libndxdp-fi.so fabric/*.c $$(pkg-config --libs libfabric) -ldl -lpthread

.PHONY: fabric-test
fabric-test: fabric ## test the provider with fi_pingpong and Open MPI (needs libfabric-bin, openmpi-bin, libopenmpi-dev, netpipe-openmpi)
	fabric/test/run.sh $(FABRIC_TEST)

.PHONY: fabtests
fabtests: fabric ## run libfabric's own tests over the provider: FABTESTS='DIR all' is their source and a set, "quick" without one (root, autoconf, libtool)
	fabric/test/fabtests.sh $(FABTESTS)

.PHONY: real
real: ## real Go programs over ndnet beside kernel TCP: a table, and bin/real.json for ndperf report; REAL='--cases redis' are flags (root, quiet machine)
	@test "$$(id -u)" = 0 || { echo "make real: needs root: network namespaces and AF_XDP sockets" >&2; exit 1; }
	cd bench/real && GOWORK=off $(GO) build -buildvcs=true -o ../../bin/real .
	bin/real --json bin/real.json $(REAL)

# NATS takes as long to compile as most programs together: a check leaves it out, and `make real` runs it.
.PHONY: real-check
real-check: ## test bench/real, with a short run of two programs when run as root
	cd bench/real && export GOWORK=off && $(GO) mod tidy -diff && $(GO) test -tags nonats -count=1 ./...

.PHONY: bars
bars: ## hold the medians of ROUNDS interleaved runs (default 5, four minutes each) against their bounds, on a quiet machine (root)
	@mkdir -p bars && rm -f bars/*.json
	@set -e; $(GO) build -buildvcs=true -o bars/ndperf ./cmd/ndperf; for i in $$(seq $(ROUNDS)); do \
		bars/ndperf veth --bulk off --baseline raw,tcp,tools --json bars/veth.$$i.json > bars/veth.$$i.log 2>&1 || { cat bars/veth.$$i.log; exit 1; }; \
		bars/ndperf veth --tests write_bw,read_bw,send_bw --baseline tcp,tools --json bars/lane.$$i.json > bars/lane.$$i.log 2>&1 || { cat bars/lane.$$i.log; exit 1; }; \
		bars/ndperf veth --datapath udp --mtu 1500 --tests write_bw --baseline tcp,tools --json bars/sockets.$$i.json > bars/sockets.$$i.log 2>&1 || { cat bars/sockets.$$i.log; exit 1; }; \
		bars/ndperf veth --streams 1 --mtu 1500 --tests write_lat --baseline none --json bars/streams.$$i.json > bars/streams.$$i.log 2>&1 || { cat bars/streams.$$i.log; exit 1; }; \
		bars/ndperf apps --rounds 1 --json bars/apps.$$i.json > bars/apps.$$i.log 2>&1 || { cat bars/apps.$$i.log; exit 1; }; \
		bars/ndperf veth --tls --tests write_lat,write_bw --baseline tcp --json bars/tls.$$i.json > bars/tls.$$i.log 2>&1 || { cat bars/tls.$$i.log; exit 1; }; \
		bars/ndperf apps --tls --rounds 1 --mtu 1500 --tests echo,http,stream,open --json bars/appstls.$$i.json > bars/appstls.$$i.log 2>&1 || { cat bars/appstls.$$i.log; exit 1; }; \
		bars/ndperf conn --json bars/conn.$$i.json > bars/conn.$$i.log 2>&1 || { cat bars/conn.$$i.log; exit 1; }; \
	done
	bars/ndperf bars bars/*.json

.PHONY: lab-vm
lab-vm: ## the same between two virtual machines, beside TCP, SoftRoCE and soft-iWARP, impaired too (root; docs/LAB.md)
	vagrant/vm.sh

.PHONY: lab-units
lab-units: dist ## the Debian package and its systemd units on those machines (root; docs/LAB.md)
	vagrant/vm.sh "$(CURDIR)/vagrant/units.sh" "$$(ls "$(CURDIR)"/dist/ndxdp_*_amd64.deb)"

.PHONY: figures
figures: ## the sweep, the page, and the plots of docs/PERFORMANCE.md, in about eight minutes on a quiet machine (root)
	$(GO) build -buildvcs=true -o bin/ndperf ./cmd/ndperf
	bin/ndperf sweep
	bin/ndperf report --svg docs/img ndperf-sweep.json

.PHONY: bench
bench: ## benchmarks, compared with $(BASELINE) through benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) work | tee bench/latest.out
	@if test -f $(BASELINE); then "$$($(TOOL) benchstat)" $(BASELINE) bench/latest.out; \
	else echo "no $(BASELINE) yet: keep this run with: cp bench/latest.out $(BASELINE)"; fi

.PHONY: generate
generate: ## compile the XDP program and every other generated file
	$(GO) generate work

.PHONY: lint
lint: ## golangci-lint, shellcheck for the scripts, vagrant validate
	"$$($(TOOL) golangci-lint)" run $$($(GO) list -m -f '{{.Dir}}/...')
	shellcheck .ci/run .ci/leftovers .ci/testuser .ci/tidy bpf/check.sh vagrant/*.sh packaging/*.sh fabric/test/*.sh packaging/debian/prerm packaging/debian/postrm
	cd vagrant && vagrant validate --ignore-provider

.PHONY: tidy
tidy: ## go mod tidy for every module in go.work
	.ci/tidy

.PHONY: fmt
fmt: ## format with gofumpt
	"$$($(TOOL) gofumpt)" -w .

# So many inputs and not so many seconds: go's fuzzer may report the end of its time as a failure. `timeout` ends a target that hangs.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME: so many inputs (default 30000x) or a duration (10m, which FUZZLIMIT must exceed)
	@set -e; targets=0; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			targets=$$((targets + 1)); echo "fuzz $$file $$target"; \
			out=$$(timeout $(or $(FUZZLIMIT),10m) $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$(dirname $$file) 2>&1) || \
				{ echo "$$out"; echo "make fuzz: $$target failed, or took longer than $(or $(FUZZLIMIT),10m)" >&2; exit 1; }; \
			echo "$$out" | grep '^fuzz:' | tail -1; \
		done; \
	done; test $$targets -gt 0 || { echo "make fuzz: found no target" >&2; exit 1; }

.PHONY: sim
sim: ## the simulation: SEEDS=10000 worlds and a table of what happened, or the trace of SEED=n
	NDXDP_SIM_SEED=$(SEED) NDXDP_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./provider/sim

.PHONY: sim-short
sim-short: ## as many worlds as it takes to see every fault; the congestion scenarios are part of make test
	NDXDP_SIM_SEEDS=2000 $(GO) test -count=1 -run '^(TestSimulation|TestRealTLSWorlds)$$' ./provider/sim

.PHONY: sim-soak
sim-soak: ## the simulation, other seeds every time, until stopped
	$(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./provider/sim -sim.soak

.PHONY: interleavings
interleavings: ## shards, doorbells, inboxes and moves in every order of steps, with DEEPER=0 interruptions beyond the usual
	$(GO) vet -tags interleave ./provider/...
	$(GO) test -tags interleave -count=1 -timeout 0 ./provider/internal/interleave
	$(GO) test -tags interleave -count=1 -timeout 0 -v -run Interleavings ./provider -explore.more $(or $(DEEPER),0)

.PHONY: worlds
worlds: ## the scoreboard of congestion control: named networks, WORLDS=3 seeds each, WORLD=regular expression; fails for missed bars
	NDXDP_WORLDS=$(WORLDS) NDXDP_WORLD='$(WORLD)' $(GO) test -count=1 -timeout 0 -run '^TestWorlds$$' ./provider/sim

.PHONY: dist
dist: ## static binaries for amd64 and arm64, packages, manual pages, completions, SBOMs and checksums of this commit, into dist/
	packaging/dist.sh dist

.PHONY: dist-check
dist-check: ## build that twice and compare, install and remove the Debian package in a throw-away root, verify units and manifests
	packaging/check.sh
	cd packaging/kubernetes && GOWORK=off $(GO) test -count=1 ./...

# Packages that need no kernel of the architecture, beside the commands, which must compile. qemu-user runs the tests, but for one that
# runs itself as another user: the kernel does not know the program.
ARM64 := ./wire ./internal/... ./provider/internal/... ./nd/ndcapture
ARM64_SKIP := internal/netlab|internal/datapath|internal/host|internal/udp|internal/icmp|internal/broker|internal/mutants|internal/testrun|internal/genetlink|internal/interleave

.PHONY: check-arm64
check-arm64: ## vet and build for arm64, and run the unit tests that need no kernel of that architecture under qemu-user
	@command -v qemu-aarch64 >/dev/null || { echo "make check-arm64: qemu-aarch64 is missing: apt-get install qemu-user" >&2; exit 1; }
	GOARCH=arm64 $(GO) vet work
	GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/...
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -short -skip '^TestRequestOfAnotherUser$$' -exec qemu-aarch64 $$($(GO) list $(ARM64) | grep -vE '$(ARM64_SKIP)')

.PHONY: clean
clean: ## remove what builds and runs leave in the tree
	rm -rf bin bars dist ndperf bench/latest.out ndperf-sweep.json ndperf-report.html
	$(GO) clean -testcache

.PHONY: fmt-check
fmt-check:
	@out=$$("$$($(TOOL) gofumpt)" -l .) && test -z "$$out" || { echo "not formatted (make fmt):" >&2; echo "$$out" >&2; exit 1; }

.PHONY: vet
vet:
	$(GO) vet work

.PHONY: tidy-check
tidy-check:
	.ci/tidy -diff
	$(GO) mod verify

.PHONY: fix-check
fix-check:
	$(GO) fix -diff work

.PHONY: generate-check
generate-check:
	bpf/check.sh
