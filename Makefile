# `make` alone lists what there is. Nothing here needs more than Go, gcc (for
# the race detector), Redis for the tests (.ci/redis installs it on Debian) and,
# for e2e, what relay/e2e/run says.

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The commit is noted where git knows it; a source archive builds without.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

# Knobs.
ARGS ?=
BENCH ?= .
FUZZTIME ?= 10s
SOAK ?= 30m
SIM ?= 10m
TIMEOUT ?= 20m

# The program is built with a profile of itself, cmd/xdsrelay/default.pgo. Tests and the
# linter do without: that would build each package twice.
NOPGO := -pgo=off

# make vet runs all analyzers, so tests do not run some of them again. Test programs have no symbols
# for a debugger, so each is linked in two thirds of the time.
TEST := test $(NOPGO) -vet=off -ldflags=-s

# Only the race detector needs cgo. The program does without, and all else, too: whatever is
# built with the same flags is compiled once.
export CGO_ENABLED := 0

# Tools are built from source by the Go toolchain, at the version named here.
GOLANGCI_VERSION := v2.15.0
GOLANGCI := .bin/golangci-lint-$(GOLANGCI_VERSION)
CONTOUR_VERSION := v1.33.8
CONTOUR := .bin/contour-$(CONTOUR_VERSION)
COLLECTOR := .bin/otelcol-v0.162.0

# The generator of the documentation site, and its packages at the versions of its lock file.
SITE := .ci/site

.DEFAULT_GOAL := help
.PHONY: help build bench-tool redis test race bench bench-idle pgo bench-check soak upgrade-test standin sim sim-check sim-trust tier-takeover tier-idle hostile hostile-defaults fuzz e2e screenshots trace-picture demo pages docs man fmt vet lint check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/xdsrelay
	$(GO) build -buildvcs=$(VCS) -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/xdsrelay ./cmd/xdsrelay

# It is built without the profile, so nothing that it shares with the program is compiled once for
# both: the first build of a new user does without.
bench-tool: ## build the load tool, bin/xdsbench
	$(GO) build $(NOPGO) -buildvcs=$(VCS) -o bin/xdsbench ./cmd/xdsbench

redis: ## make sure that there is a redis-server, which the tests start
	@bash .ci/redis

# All packages, those first whose tests take longest: the others are compiled and run beside
# them, and none is left to run alone at the end.
PACKAGES := ./relay ./relay/robust ./relay/hostile/amplify ./relay/hostile ./relay/sim ./shard/head ./cmd/xdsbench ./relay/conformance ./relay/cache ./fanout ./...

# Many tests wait, for leases and processes, so twice as many packages run at a time as
# there are processors, and of tests that may run at the same time.
test: redis ## run the tests
	at_a_time=$$((2 * $$(getconf _NPROCESSORS_ONLN))) && \
	$(GO) $(TEST) -p $$at_a_time -parallel $$at_a_time -timeout $(TIMEOUT) $(PACKAGES)

# Each package has one processor, and two run at a time. With more, Go 1.26 can crash
# in the race detector: goroutines of a synctest bubble that set a timer which is due
# at once run it themselves, and all in the one race context of the bubble. The robustness
# suite has no bubbles, and what it looks at are processes without the detector, so it is
# tried in short. The costs that amplify measures would be those of the detector, so it is
# left out. Properties have fewer cases than in "make test", which looks for wrong results.
race: export CGO_ENABLED := 1
race: export RAPID_CHECKS := 30
race: redis ## run the tests under the race detector
	$(GO) $(TEST) -race -p 2 -timeout 30m -exec 'env GOMAXPROCS=1' $$($(GO) list $(PACKAGES) | grep -v -e '/relay/robust$$' -e '/relay/hostile/amplify$$')
	$(GO) $(TEST) -race -short -timeout $(TIMEOUT) ./relay/robust

bench: ## run the Go benchmarks, or those that BENCH=regexp names
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

bench-idle: ## measure what idle streams cost, into bench/results (6 minutes)
	$(GO) test ./bench -run '^TestMeasureIdle$$' -count 1 -timeout 20m -v -args -idle.out results $(ARGS)

# ARGS adds: -soak.store directory (or redis), -soak.guard, -soak.sotw, -soak.redis cluster, -soak.tier=false,
# -soak.rollouts (faults during rollouts, with -soak.store redis; it writes no report).
soak: redis ## let faults happen to a tier of real processes for SOAK (30m), into bench/results
	$(GO) $(TEST) ./relay/robust -run '^TestSoak$$' -count 1 -timeout 24h -v -args -soak $(SOAK) -soak.out $(CURDIR)/bench/results -soak.commit "$$(git describe --always --dirty)" $(ARGS)

# FROM is a tag or a commit; the default is the last tag.
upgrade-test: FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
upgrade-test: redis ## upgrade a tier from the version FROM under load, node by node, roll it back, and upgrade it again (3 minutes)
	@[ -n "$(FROM)" ] || { echo "no version to upgrade from: there is no tag; expected FROM=TAG or FROM=COMMIT"; exit 2; }
	rm -rf bin/upgrade && mkdir -p bin/upgrade/source
	git archive "$(FROM)" | tar -x -C bin/upgrade/source
	$(GO) -C bin/upgrade/source build -pgo=off -buildvcs=false -o ../xdsrelay ./cmd/xdsrelay
	rm -rf bin/upgrade/source
	$(GO) $(TEST) ./relay/robust -run '^TestUpgrade$$' -count 1 -timeout 1h -v -args -upgrade.from $(CURDIR)/bin/upgrade/xdsrelay

standin: ## run the tests of Redis with what stands in for it in the simulation
	XDSRELAY_REDIS_STANDIN=1 $(GO) $(TEST) -timeout $(TIMEOUT) ./shard/head ./shard/lease ./shard/lastgood ./shard/store

sim: standin ## let faults happen to a simulated tier for SIM (10m) of CPU time, with seeds that follow the clock, and shrink plans that fail
	$(GO) $(TEST) ./relay/sim -run '^TestHunt$$' -count 1 -timeout 24h -v -args -sim.for $(SIM) -sim.from 0 $(ARGS)

sim-check: ## run the same plans each time, 10 minutes of CPU time
	.ci/sim

# ARGS adds: -sim.for 10m (hunts by seed as well, for so much CPU time each), -sim.trust NAME,NAME.
sim-trust: ## take fixes out of the product, and show that the simulation finds each
	$(GO) $(TEST) ./relay/sim -run '^TestTrust$$' -count 1 -timeout 24h -v -args -sim.trust all $(ARGS)

tier-takeover: redis ## measure what the loss of a node of a tier costs, into bench/results (6 minutes)
	$(GO) $(TEST) ./relay/robust -run '^TestTakeover$$' -count 1 -timeout 1h -v -args -takeover.out $(CURDIR)/bench/results $(ARGS)

tier-idle: redis ## measure what ten nodes do while nothing changes, into bench/results (6 minutes)
	$(GO) $(TEST) ./relay/robust -run '^TestIdle$$' -count 1 -timeout 1h -v -args -idle.out $(CURDIR)/bench/results $(ARGS)

hostile-defaults: redis ## attack a node that has the shipped configuration and the chart's memory, and measure its locks (4 minutes)
	$(GO) $(TEST) ./relay/cache -run '^TestLongestHold$$' -count 1 -timeout $(TIMEOUT) -args -holds
	$(GO) $(TEST) ./relay/hostile -run '^TestDefaults' -count 1 -timeout $(TIMEOUT) -args -hostile.defaults

hostile: ## attack a node in a process of its own with full sizes, into bench/results, and measure what all messages cost
	$(GO) $(TEST) ./relay/hostile -count 1 -timeout 1h -v -args -hostile.full -hostile.out $(CURDIR)/bench/results $(ARGS)
	$(GO) $(TEST) ./relay/hostile/amplify -count 1 -timeout 1h -args -amplify.full

bench-check: build bench-tool ## compare the relay with the floor and the last kept result; memory and allocations have limits (4 minutes)
	bin/xdsbench compare check check-keys --strict --relay-bin bin/xdsrelay --against bench/results $(ARGS)

pgo: build bench-tool ## take the profile that the program is built with anew (1 minute)
	bash bench/profile.sh

fuzz: ## run each fuzz target for FUZZTIME (10s, or 5000x for executions)
	@$(GO) list -f '{{.Dir}}' ./... | FUZZTIME='$(FUZZTIME)' GO='$(GO)' bash .ci/fuzz

e2e: build redis $(CONTOUR) $(COLLECTOR) ## run real xDS clients (Go, Python, Node, contour), and tiers, through the built program, and a browser on its page
	E2E_CONTOUR=$(CURDIR)/$(CONTOUR) E2E_COLLECTOR=$(CURDIR)/$(COLLECTOR) bash relay/e2e/run

trace-picture: build redis $(COLLECTOR) ## draw docs/img/trace.svg from what a collector receives of a tier
	rm -rf bin/record && mkdir -p bin/record docs/img
	E2E_RECORD=$(CURDIR)/bin/record E2E_COLLECTOR=$(CURDIR)/$(COLLECTOR) bash relay/e2e/run -run '^TestCollector$$'
	$(GO) run $(NOPGO) ./relay/e2e/picture bin/record/traces.json >bin/record/trace.svg
	mv bin/record/trace.svg docs/img/trace.svg

screenshots: build redis ## take the pictures of the live page and of a terminal in docs/img (3 minutes)
	E2E_SCREENSHOTS=$(CURDIR)/docs/img bash relay/e2e/run -run '^Test(Rollout)?Screenshots$$'

demo: build ## watch a relay and 200 clients in one process; ARGS='--for 15s' ends it
	bin/xdsrelay demo $(ARGS)

.PHONY: deploy-check image sbom release licenses

deploy-check: build redis ## check what is in deploy/: chart, manifests, alerts, dashboards, image
	bash .ci/prometheus
	cd deploy/verify && $(GO) $(TEST) ./...

# Reproducible: all times are those of the commit, and nothing comes from this machine.
# ARGS='-push registry.example.com/xdsrelay:v1' pushes it, too.
image: ## make bin/xdsrelay-image.tar, an OCI image for amd64 and arm64, without Docker
	for arch in amd64 arm64; do \
	  GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=$(VCS) -trimpath -ldflags '-s -w -X main.version=$(VERSION)' \
	    -o bin/linux-$$arch/xdsrelay ./cmd/xdsrelay || exit 1; \
	done
	cd deploy/verify && $(GO) run ./notices -texts $(CURDIR)/bin/linux-amd64/xdsrelay >$(CURDIR)/bin/THIRD-PARTY-NOTICES
	cd deploy/verify && $(GO) run ./image -program linux/amd64=$(CURDIR)/bin/linux-amd64/xdsrelay -program linux/arm64=$(CURDIR)/bin/linux-arm64/xdsrelay \
	  -version '$(VERSION)' -revision "$$(git rev-parse HEAD 2>/dev/null)" -created "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
	  -license $(CURDIR)/LICENSE -notices $(CURDIR)/bin/THIRD-PARTY-NOTICES -o $(CURDIR)/bin/xdsrelay-image.tar $(ARGS)

sbom: build ## list what bin/xdsrelay is made of in bin/xdsrelay.cdx.json (CycloneDX)
	cd deploy/verify && $(GO) run ./sbom -version '$(VERSION)' $(CURDIR)/bin/xdsrelay >$(CURDIR)/bin/xdsrelay.cdx.json

# Reproducible: paths and build times are not in the programs, and the archives have the time of the
# commit. SHA256SUMS lists all files; each program has its bill of materials (CycloneDX).
RELEASE := bin/release
release: ## build archives for linux and darwin, amd64 and arm64, with checksums and bills of materials, into bin/release
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	for os in linux darwin; do for arch in amd64 arm64; do \
	  name=xdsrelay-$(VERSION)-$$os-$$arch && mkdir $(RELEASE)/$$name && cp LICENSE README.md $(RELEASE)/$$name/ && \
	  GOOS=$$os GOARCH=$$arch $(GO) build -buildvcs=$(VCS) -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(RELEASE)/$$name/ ./cmd/xdsrelay && \
	  (cd deploy/verify && $(GO) run ./notices -texts $(CURDIR)/$(RELEASE)/$$name/xdsrelay) >$(RELEASE)/$$name/THIRD-PARTY-NOTICES && \
	  (cd deploy/verify && $(GO) run ./sbom -version '$(VERSION)' $(CURDIR)/$(RELEASE)/$$name/xdsrelay) >$(RELEASE)/$$name.cdx.json && \
	  tar --sort=name --mtime="@$$(git log -1 --format=%ct 2>/dev/null || echo 0)" --owner=0 --group=0 --numeric-owner -C $(RELEASE) -cf - $$name | gzip -n >$(RELEASE)/$$name.tar.gz && \
	  rm -r $(RELEASE)/$$name || exit 1; \
	done; done
	cd $(RELEASE) && sha256sum * >SHA256SUMS && cat SHA256SUMS

licenses: build ## write docs/internals/dependencies.md: the modules in bin/xdsrelay and their licenses
	cd deploy/verify && $(GO) run ./notices $(CURDIR)/bin/xdsrelay >$(CURDIR)/docs/internals/dependencies.md

fmt: ## format the Go code
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

pages: ## write again the pages that are made from the code, which tests compare
	# Some are made from others, and a run that has written one fails.
	for i in 1 2 3; do $(GO) $(TEST) ./relay/config -count 1 -args -update >/dev/null || true; done
	$(GO) $(TEST) ./relay/config -count 1
	$(GO) $(TEST) ./relay -run 'TestLimitsPage|TestMetricsPage|TestEventsPage|TestWhoGetsWhat' -count 1 -args -update
	$(GO) $(TEST) ./relay/admin -run TestRunbookCopy -count 1 -args -update
	$(GO) $(TEST) ./relay/conformance ./relay/hostile/amplify ./bench/scenario -run TestPage -count 1 -args -update
	$(GO) $(TEST) ./fanout/conversation ./upstream/conversation ./upstream/quarantine ./relay/cache/confidence ./relay/cache/link ./relay/rollout -run TestTransitions -count 1 -args -update
	$(GO) $(TEST) ./cmd/xdsrelay -count 1 -args -update

# DOCS_REPOSITORY is where links to files outside docs lead, and DOCS_BASE the path at which a web
# server has the site.
DOCS_REPOSITORY ?= https://github.com/example/xdsrelay
DOCS_BASE ?= /
docs: $(SITE)/node_modules/.package-lock.json ## render docs as a static site into bin/docs; a dead link or anchor fails (needs Node.js)
	cd $(SITE) && DOCS_VERSION='$(VERSION)' DOCS_REPOSITORY='$(DOCS_REPOSITORY)' DOCS_BASE='$(DOCS_BASE)' npm run --silent build

man: ## write man pages to bin/man, and scripts that complete commands in shells to bin/completions
	mkdir -p bin
	$(GO) $(TEST) ./cmd/xdsrelay -run '^TestPages$$' -count 1 -args -pages $(CURDIR)/bin

vet: ## run go vet, on the end-to-end tests too
	$(GO) vet $(NOPGO) ./...
	$(GO) vet $(NOPGO) -tags e2e ./relay/e2e
	cd deploy/verify && $(GO) vet $(NOPGO) ./...
	cd deploy/verify/collector && $(GO) vet ./...

lint: $(GOLANGCI) ## run golangci-lint
	GOFLAGS=$(NOPGO) $(GOLANGCI) run ./...
	cd deploy/verify && $(CURDIR)/$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...
	cd deploy/verify/collector && $(CURDIR)/$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...

check: vet lint test ## vet, lint, test, and the words of the newest commit: what a change has to pass
	GOFLAGS=$(NOPGO) go test -vet=off ./relay -run TestCommitSubject -args -prose.subject "$$(git log -1 --format=%s)"

clean: ## remove what the targets above have built
	rm -rf bin .bin relay/e2e/clients/node/node_modules relay/e2e/browser/node_modules $(SITE)/node_modules

# go install leaves the name without the version; the version in the name makes
# a new one be built when it changes.
$(GOLANGCI):
	GOBIN=$(CURDIR)/.bin GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .bin/golangci-lint $@

# An xDS client for the end-to-end tests: contour's own command line (minutes).
$(CONTOUR):
	GOBIN=$(CURDIR)/.bin GOFLAGS= $(GO) install github.com/projectcontour/contour/cmd/contour@$(CONTOUR_VERSION)
	mv .bin/contour $@

# What telemetry is sent to in the end-to-end tests: the OpenTelemetry Collector, of the
# parts that they need. It is built as the linter looks at it, so that both share what is
# compiled (a minute and a half of one processor).
$(COLLECTOR): deploy/verify/collector/main.go deploy/verify/collector/go.mod
	cd deploy/verify/collector && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ .

# npm writes this copy of the lock file after it has installed all packages. None runs a script.
$(SITE)/node_modules/.package-lock.json: $(SITE)/package-lock.json
	cd $(SITE) && npm ci --ignore-scripts --loglevel=error
