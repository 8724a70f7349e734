# Quorate. `make help` lists what can be made.
SHELL := /bin/bash
.DEFAULT_GOAL := help

CACHE  := $(or $(QUORATE_CACHE),$(HOME)/.cache/quorate)
TOOLS  := $(CACHE)/tools
GO     ?= go
# As the artifacts are compiled (internal/local/artifacts): what both are made of is compiled once. Debugging data would be a fifth of the work.
export GOFLAGS := -buildvcs=false -gcflags=all=-dwarf=false -gcflags=std=
export CGO_ENABLED := 0

LINT_PIN     := $(shell cat tools/lint/go.mod tools/lint/go.sum 2>/dev/null | sha256sum | cut -c1-12)
GENERATE_PIN := $(shell cat tools/generate/go.mod tools/generate/go.sum tools/generate/main.go 2>/dev/null | sha256sum | cut -c1-12)
ALERTS_PIN   := $(shell cat tools/alerts/go.mod tools/alerts/go.sum 2>/dev/null | sha256sum | cut -c1-12)
VULN_PIN     := $(shell cat tools/vuln/go.mod tools/vuln/go.sum 2>/dev/null | sha256sum | cut -c1-12)
WORKFLOWS_PIN := $(shell cat tools/workflows/go.mod tools/workflows/go.sum 2>/dev/null | sha256sum | cut -c1-12)
S3_PIN       := $(shell cat tools/s3/go.mod tools/s3/go.sum 2>/dev/null | sha256sum | cut -c1-12)
BROWSER_PIN  := $(shell cat tools/browser/go.mod tools/browser/go.sum tools/browser/main.go 2>/dev/null | sha256sum | cut -c1-12)
PROSE_PIN    := $(shell cat tools/prose/go.mod tools/prose/go.sum 2>/dev/null | sha256sum | cut -c1-12)
GOLANGCI     := $(TOOLS)/golangci-lint-$(LINT_PIN)
CONTROLLERGEN := $(TOOLS)/controller-gen-$(GENERATE_PIN)
CRDGEN := $(TOOLS)/crd-gen-$(GENERATE_PIN)
PROMTOOL := $(TOOLS)/promtool-$(ALERTS_PIN)
S3_SERVER := $(TOOLS)/versitygw-$(S3_PIN)
BROWSER := $(TOOLS)/browser-$(BROWSER_PIN)
AXE_VERSION := 4.14.1
AXE_SHA256  := 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
AXE := $(TOOLS)/axe-$(AXE_VERSION).min.js
ACTIONLINT := $(TOOLS)/actionlint-$(WORKFLOWS_PIN)
VALE := $(TOOLS)/vale-$(PROSE_PIN)
GOVULNCHECK := $(TOOLS)/govulncheck-$(VULN_PIN)

# What programs say of themselves. A tree without git names them itself: make image VERSION=v0.1.0 REVISION=... DATE=...
VERSION  ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)
REVISION ?= $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
DATE     ?= $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
BUILDINFO := github.com/quorate/quorate/internal/program/buildinfo
STAMP     = -X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).revision=$(REVISION) -X $(BUILDINFO).date=$(DATE)

RUN  ?=
FROM ?=
TO   ?=
CELLS ?=
SEED ?=
FILL ?=
FUZZTIME ?= 1m
comma := ,

# The version of Kubernetes where none is asked for.
DEFAULT := $(shell sed -n 's/^const DefaultVersion = "\(.*\)"$$/\1/p' internal/local/artifacts/pins.go)

# Before a command: real etcd and kube-apiserver for tests, which without them are skipped and show nothing.
WITH_ASSETS = assets=$$(./bin/quorate artifacts list -o json | grep -om1 '"management": *"[^"]*/management-$(DEFAULT)-[^"]*"' | cut -d"\"" -f4); \
	[ -d "$$assets" ] || { echo 'no etcd and kube-apiserver for tests: see ./bin/quorate artifacts list' >&2; exit 1; }; \
	KUBEBUILDER_ASSETS=$$assets

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: programs ## build bin/quorate, bin/quorate-node, bin/quorate-upgrader and bin/quorate-manager
	$(GO) build -ldflags '-s -w $(STAMP)' -o bin/quorate-manager ./cmd/manager

# What one host needs; the manager runs in a management cluster. The upgrader is not told its revision here: images of hundreds of MB are made
# anew for each upgrader that differs. `make image` tells it.
.PHONY: programs
VERBOSE ?=
programs:
	$(GO) build $(VERBOSE) -ldflags '-s -w $(STAMP)' -o bin/quorate ./cmd/quorate
	$(GO) build $(VERBOSE) -ldflags '-s -w $(STAMP)' -o bin/quorate-node ./cmd/node & node=$$!; \
	$(GO) build $(VERBOSE) -ldflags '-s -w' -o bin/quorate-upgrader ./cmd/upgrader && wait $$node

OUT         ?= dist
UPGRADERS   ?=
BUNDLES     ?=
RELEASE     = $(GO) run ./hack/release -out '$(OUT)' -version '$(VERSION)' -revision '$(REVISION)' -date '$(DATE)' \
	-kubernetes '$(UPGRADERS)' -bundles '$(BUNDLES)' -architectures '$(ARCHES)'

.PHONY: image
image: ## images of the manager and the upgraders as OCI layouts, into OUT=dist; ARCHES='amd64 arm64', UPGRADERS='v1.36.3' choose
	$(RELEASE) images

.PHONY: image-check
image-check: ## build the manager's image and a cached upgrader's twice, the second time from a copy of the sources elsewhere: both must be equal
	GO='$(GO)' VERSION='$(VERSION)' REVISION='$(REVISION)' DATE='$(DATE)' ARCHES='$(or $(ARCHES),$(shell $(GO) env GOARCH))' UPGRADERS='$(UPGRADERS)' ./hack/image-check.sh

.PHONY: bundle
bundle: ## what local machines consist of, for QUORATE_BUNDLE, into OUT=dist; BUNDLES='v1.37.2' chooses, QUORATE_RELEASE_KEY signs
	$(RELEASE) bundle

.PHONY: release
release: ## all that a release consists of, into OUT=dist: images, programs, bundles, lists of what is in them, components, the Helm chart, checksums; QUORATE_RELEASE_KEY names the file with the key that signs these
	$(RELEASE) all

.PHONY: release-verify
release-verify: ## verify the signature and all checksums of a release in OUT=dist; QUORATE_RELEASE_PUBLIC_KEY names the file with the public key
	$(GO) run ./hack/release -out '$(OUT)' verify

.PHONY: packages
packages: ## install the operating system's packages that machines need (Debian, Ubuntu; as root)
	./hack/install-packages.sh

# In the background, and without a word: see there.
.PHONY: fetch
fetch:
	@[ -n "$$QUORATE_BUNDLE" ] || GO='$(GO)' ./hack/fetch-modules.sh >/dev/null 2>&1 &

.PHONY: demo
demo: ## from nothing to a highly available control plane on this host (as root); QUORATE_BUNDLE names a bundle that spares the builds
	@GO='$(GO)' MAKE='$(MAKE)' ./hack/demo.sh

.PHONY: check
check: ## the first loop of a change, in less than a minute, offline, without root; BASE=BRANCH chooses what it compares with
	@GO='$(GO)' GOLANGCI='$(GOLANGCI)' BASE='$(BASE)' ./hack/check.sh

.PHONY: test
test: ## what CI runs: generated files, lint, unit, worlds, model, mutation, envtest and, as root, eight lives of e2e
	@./hack/test.sh

.PHONY: test-all
test-all: ## what `make test` leaves out, for hours: meaning, write points, worlds, fuzz, alerts, images, the language of documents and, as root, all of e2e
	@./hack/test.sh rest

.PHONY: lint
lint: $(GOLANGCI) $(ACTIONLINT) ## lint the code and the workflows, and measure the tree against its limits
	$(GOLANGCI) run --allow-parallel-runners ./...
	$(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yml
	$(GO) test ./test/limits -count 1

PAGES ?= $(wildcard *.md .github/*.md docs/*.md docs/*/*.md)

# What golden files record of messages that are put together of several texts.
MESSAGES ?= internal/core/plan/testdata/explain.txt
SOURCES ?= api cmd hack internal test tools

.PHONY: prose
prose: $(VALE) ## check the language of documents, comments, messages and help with vale, whose build needs a C compiler; PAGES, SOURCES and MESSAGES name some
	$(GO) run ./hack/prose $(VALE) $(PAGES) $(MESSAGES) $(SOURCES)

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## known vulnerabilities in all programs and tools; not a part of `make test`: it asks a database on the Internet, and says so where it cannot; GOVULNDB names another one
	./hack/vulncheck.sh $(GOVULNCHECK)

.PHONY: unit
unit: programs ## unit tests, rows, stories, a million steps of random worlds, as many fresh ones as FRESH_STEPS, envtest
	./bin/quorate artifacts build
	$(WITH_ASSETS) \
	$(GO) test -timeout 30m $$($(GO) list ./... | grep -v /test/e2e)
	$(WITH_ASSETS) \
	$(GO) -C tools/install test ./...
	$(GO) -C tools/peer test ./...
	$(MAKE) fresh-worlds

# Seeds that no run before has tried: those of the commit, far above the fixed ones. FRESH=N repeats a range, FRESH_STEPS bounds its time.
FRESH       ?= $(shell printf '%d' "0x$$(git rev-parse --short=8 HEAD 2>/dev/null | cut -c1-8 || echo 0)" | awk '{printf "%.0f", 1e12 + $$1 * 1e5}')
FRESH_STEPS ?= 500000

.PHONY: fresh-worlds
fresh-worlds: ## random worlds of seeds that follow from the commit; FRESH=SEED FRESH_STEPS=N repeat them
	@echo 'worlds of the seeds from $(FRESH), $(FRESH_STEPS) steps; to repeat: make fresh-worlds FRESH=$(FRESH) FRESH_STEPS=$(FRESH_STEPS)'
	$(GO) test ./internal/core/sim -run '^Test(Uncommon|Restored|Hanging)?Worlds$$' -count 1 -args -from=$(FRESH) -steps=$(FRESH_STEPS)
	$(GO) test ./internal/core/sim -run '^TestRecoveredWorlds$$' -count 1 -args -from=$(FRESH) -steps=$$(( 8 * $(FRESH_STEPS) ))

.PHONY: nightly
nightly: ## ten times as many fresh worlds as `make unit` draws
	$(MAKE) fresh-worlds FRESH=$(FRESH) FRESH_STEPS=$$(( 10 * $(FRESH_STEPS) ))

.PHONY: worlds
worlds: ## many random worlds; SEED=N replays one and tells its story
	$(GO) test ./internal/core/sim -run TestWorlds -count 1 -v -args $(if $(SEED),-seed=$(SEED),-steps=3000000)

.PHONY: etcd-agrees
etcd-agrees: programs ## scripted lives on real etcd processes and in the worlds' etcd, compared after every step
	./bin/quorate artifacts build
	$(WITH_ASSETS) \
	$(GO) test ./internal/core/sim -run TestEtcdAgrees -count 1 -v

.PHONY: model
model: ## explore every state of small groups, with accidents and old looks; DEEP=1 goes further, for long
	$(GO) run ./test/model $(if $(DEEP),-deep)

.PHONY: fuzz
fuzz: ## every fuzz function of the module, one after the other, FUZZTIME=1m each
	GO=$(GO) FUZZTIME=$(FUZZTIME) ./hack/fuzz.sh

.PHONY: write-points
write-points: ## each write of the controller fails, loses its answer, is its last, or is not to be read yet
	@set -o pipefail; GOGC=400 $(GO) test ./internal/kinds/stacked -run 'TestWritePoints$$' -count 1 -timeout 60m -v -args -all-writes | grep -vE '^ *(=== |--- |PASS|FAIL|ok )'

.PHONY: mutate
mutate: ## sabotage every rule and comparison of the decision core, one at a time
	$(GO) run ./test/mutate -kind signs

.PHONY: meaning
meaning: ## sabotage what the rules mean: guards forgotten in one key or both, rules that change places; tells what sees it; ONLY=REGEXP chooses
	$(GO) run ./test/mutate -kind meaning -v -only '$(ONLY)'

.PHONY: hostile
hostile: programs ## the manager against each attack of a hostile cluster, beside nine honest ones; ATTACKS=REGEXP chooses
	./bin/quorate artifacts build
	@$(WITH_ASSETS) \
	$(GO) test ./test/hostile -count 1 -v -timeout 20m -args -hostile -attacks '$(ATTACKS)'

.PHONY: s3
s3: $(S3_SERVER) ## test the store of backups with a real S3 server, which is built first, for some minutes; not a part of `make test`
	QUORATE_S3_SERVER='$(S3_SERVER)' $(GO) test -count=1 -run TestServer ./internal/cluster/backup/store

.PHONY: alerts
alerts: $(PROMTOOL) ## check config/monitoring/alerts.yaml and run its tests by promtool; not a part of `make test`: promtool is built first, for some minutes
	$(PROMTOOL) check rules config/monitoring/alerts.yaml
	$(PROMTOOL) test rules config/monitoring/alerts_test.yaml

.PHONY: bench
bench: ## speed and memory of the core and of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem ./internal/core/plan ./internal/core/check ./internal/core/forecast ./internal/core/sim ./internal/local/balancer ./internal/cluster/workload ./internal/kinds/stacked

.PHONY: bench-backup
bench-backup: ## a backup of an etcd of SIZE=100M with MEMBERS=3, beside the disk; it needs 5 times SIZE in TMPDIR
	QUORATE_BACKUP_SIZE='$(SIZE)' QUORATE_BACKUP_MEMBERS='$(MEMBERS)' $(GO) test -run '^$$' -bench BenchmarkBackup -benchtime 1x -timeout 60m ./internal/cluster/backup

.PHONY: bench-plan
bench-plan: ## quorate plan of seven machines and of 500 control planes; KUBEBUILDER_ASSETS names the API server's programs
	$(GO) test -run '^$$' -bench BenchmarkPlan -benchtime 3x -timeout 30m ./test/envtest

.PHONY: bench-upstream
bench-upstream: programs ## Quorate's controller beside upstream's in Cluster API's in-memory world; ARGS=-h lists what is compared; SIDES=quorate leaves upstream's out; logs stay in OUT=dist/upstream
	./bin/quorate artifacts build
	$(GO) -C tools/upstream build -o '$(CURDIR)/bin/bench-upstream' .
	$(WITH_ASSETS) ./bin/bench-upstream -root '$(CURDIR)' -out '$(abspath $(if $(filter file,$(origin OUT)),$(OUT)/upstream,$(OUT)))' -sides '$(or $(SIDES),upstream$(comma)quorate)' $(ARGS)

.PHONY: docs-check
docs-check: ## the commands of the documents: all of quorate and make are parsed, and those for one cluster are run on real machines, as root; `make e2e RUN='(helm|upgrade-provider|docs-make|docs-bench)'` runs those for management clusters, with the sources, and what measures, for two hours
	$(GO) test ./test/docs ./internal/cli -count 1 -run 'TestCommands|TestDocuments|TestExamples'
	$(MAKE) e2e RUN='(docs|docs-change|examples)'

# The tests that run the manager in a cluster; RUN may be a pattern that names some of them. The others spare its build.
IN_PODS := move self-managed helm upgrade-provider

# The life that needs a real S3 server.
WITH_S3 := backup-s3

# The life that looks at pages with Chromium, which the user installs, and judges them by axe-core.
WITH_BROWSER := dashboard

.PHONY: e2e
e2e: packages $(if $(or $(if $(RUN),,all),$(findstring $(WITH_S3),$(RUN))),$(S3_SERVER)) $(if $(or $(if $(RUN),,all),$(findstring $(WITH_BROWSER),$(RUN))),$(BROWSER) $(AXE)) $(if $(strip $(if $(RUN),,all) $(foreach one,$(IN_PODS),$(findstring $(one),$(RUN)))),build,programs) ## real machines on this host, as root; FROM and TO choose the versions of Kubernetes of upgrades; CELLS names the file into which RUN=versions writes what it measured, and CELL those of its upgrades that are run, or next; DRILLS, a number or names, and SEED choose those of RUN=recover-drills, RESULTS the file for what came of them, FILL how many MB the clusters hold; SEED is also that of RUN=soak-short, instead of 1; PICTURES is the folder for those of RUN=dashboard; RUN=NAME picks one: create, worker, ipv6, dual-stack, crash, scale, join-dies, surge1, surge0, versions, repair, two-of-five, after, template, kubelet-dead, kill-daemon, adopt, takeover, external, examples, freeze-delete, status-lost, join-hangs, restored-management, decide, slow-infrastructure, kubectl-after-upgrade, forward-only, machines-scale, machines-vertical, machines-upgrade, machines-repair, machines-adopt, machines-operator, join-eager, join-dynamic, join-static, join-external, join-certificates, join-fails, certificates, etcd-create, etcd-versions, etcd-newest, etcd-scale, etcd-repair, etcd-delete, etcd-endpoints, etcd-together, etcd-twice, etcd-full, etcd-differs, etcd-foreign, plan, approve, history, backup, backup-gate, backup-s3, recover-survivor, recover-all, recover-single, recover-return, recover-forward-only, recover-etcd, recover-drills, restore-elsewhere, hibernate, replace, dashboard, inplace-one, inplace-machines, inplace-three, inplace-args, inplace-rollback, inplace-undo, inplace-workers, inplace-patches, inplace-upstream, inplace-extension, inplace-runtime, inplace-only, inplace-fallback, inplace-kill, inplace-matrix, inplace-move, class, class-chained, docs, docs-change, docs-make, docs-bench, bundle, move, self-managed, helm, upgrade-provider, peer, soak-short, down
	./bin/quorate artifacts build
	QUORATE_S3_SERVER='$(S3_SERVER)' QUORATE_BROWSER='$(BROWSER)' QUORATE_AXE='$(AXE)' QUORATE_PICTURES='$(if $(PICTURES),$(abspath $(PICTURES)))' \
	QUORATE_E2E_FROM='$(FROM)' QUORATE_E2E_TO='$(TO)' QUORATE_E2E_CELLS='$(if $(CELLS),$(abspath $(CELLS)))' QUORATE_E2E_CELL='$(CELL)' \
	QUORATE_SOAK_SEED='$(SEED)' QUORATE_DRILLS='$(DRILLS)' QUORATE_DRILLS_SEED='$(SEED)' QUORATE_DRILLS_FILL='$(FILL)' QUORATE_DRILLS_RESULTS='$(if $(RESULTS),$(abspath $(RESULTS)))' \
	$(GO) test -tags e2e ./test/e2e -count 1 -v -timeout 240m -run '^TestE2E$$$(if $(RUN),/^$(RUN)$$)'

HOURS ?= 8

.PHONY: soak
soak: packages programs ## operations of users meet faults on local machines for HOURS=8, both drawn from SEED=1, while clients use the cluster; judges what they saw, and writes a report into dist/soak; as root
	./bin/quorate artifacts build
	QUORATE_SOAK_HOURS='$(HOURS)' QUORATE_SOAK_SEED='$(SEED)' \
	$(GO) test -tags e2e ./test/e2e -count 1 -v -timeout $$(( $(HOURS) * 60 + 120 ))m -run '^TestSoak$$'

.PHONY: generate
generate: $(CONTROLLERGEN) $(CRDGEN) ## CRDs, deep copies, RBAC, webhooks, docs/rules.md, docs/troubleshooting.md and docs/reference from the code
	$(CONTROLLERGEN) object paths=./api/...
	$(CRDGEN) config/crd ./api/...
	$(CONTROLLERGEN) rbac:roleName=quorate-manager paths=./internal/... output:rbac:dir=config/rbac
	$(CONTROLLERGEN) rbac:roleName=quorate-manager paths=./internal/kinds/etcdadm/... output:rbac:dir=config/clusterctl/bootstrap
	$(CONTROLLERGEN) rbac:roleName=quorate-manager paths=./internal/upgrade/extension/... output:rbac:dir=config/clusterctl/runtime-extension
	$(CONTROLLERGEN) webhook paths=./internal/admission/... output:webhook:dir=config/webhook
	$(GO) generate ./internal/...
	$(GO) run ./hack/docs

.PHONY: bump-kubernetes
bump-kubernetes: ## pin VERSION=v1.38.0 of Kubernetes beside the others, or in place of an older patch, and print what is left to do
	@GO='$(GO)' ./hack/bump-kubernetes.sh '$(VERSION)'

.PHONY: outdated
outdated: ## fail when the module proxy has a newer patch, or a newer minor version, of Kubernetes, etcd or Cluster API than is pinned; not a part of `make test`
	@GO='$(GO)' ./hack/outdated.sh

.PHONY: pictures
pictures: ## the pictures of README.md, from what `quorate status` printed (docs/pictures/status.txt) and a golden story of internal/core/sim
	$(GO) run ./hack/pictures

.PHONY: components
components: ## what clusterctl installs, into OUT=dist/components, laid out as its local repository; VERSION, IMAGE (without tag) and UPGRADER_IMAGES (its file upgrader-images.yaml) are those of a release
	$(GO) -C tools/install run . -root '$(CURDIR)' -out '$(abspath $(if $(filter file,$(origin OUT)),$(OUT)/components,$(OUT)))' -version '$(VERSION)' -image '$(IMAGE)' -upgrader-images '$(abspath $(UPGRADER_IMAGES))'

.PHONY: verify
verify: generate ## fail when generated files or go.mod differ from what is committed
	$(GO) mod tidy -diff
	$(GO) -C tools/install mod tidy -diff
	$(GO) -C tools/upstream mod tidy -diff
	$(GO) -C tools/peer mod tidy -diff
	@git diff --exit-code -- api config docs || { echo 'generated files differ: run make generate and commit'; exit 1; }

.PHONY: clean
clean: ## remove what was built here; the cache stays (`rm -r $(CACHE)` removes that)
	rm -rf bin dist

$(GOLANGCI):
	./hack/build-tool.sh tools/lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint $@

$(CONTROLLERGEN):
	./hack/build-tool.sh tools/generate sigs.k8s.io/controller-tools/cmd/controller-gen $@

$(CRDGEN):
	./hack/build-tool.sh tools/generate github.com/quorate/quorate/tools/generate $@

$(ACTIONLINT):
	./hack/build-tool.sh tools/workflows github.com/rhysd/actionlint/cmd/actionlint $@

$(VALE):
	CGO_ENABLED=1 ./hack/build-tool.sh tools/prose github.com/vale-cli/vale/v3/cmd/vale $@

$(GOVULNCHECK):
	./hack/build-tool.sh tools/vuln golang.org/x/vuln/cmd/govulncheck $@

$(BROWSER):
	./hack/build-tool.sh tools/browser github.com/quorate/quorate/tools/browser $@

$(AXE):
	@mkdir -p $(TOOLS)
	curl -fsSL https://registry.npmjs.org/axe-core/-/axe-core-$(AXE_VERSION).tgz | tar -xzO package/axe.min.js >$@.part
	echo '$(AXE_SHA256)  $@.part' | sha256sum -c --quiet
	mv $@.part $@

$(S3_SERVER):
	./hack/build-tool.sh tools/s3 github.com/versity/versitygw/cmd/versitygw $@

$(PROMTOOL):
	./hack/build-tool.sh tools/alerts github.com/prometheus/prometheus/cmd/promtool $@
