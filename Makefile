# What people call. Every target sets up what it needs; `make help` says what each one shows.
.DEFAULT_GOAL := help
VENV ?= .venv
PY := $(VENV)/bin/python
BIN := $(VENV)/bin
BASE_PYTHON ?= python3
PART ?=
ONLY ?=
N ?=
SEED ?=
ENGINE ?=

help: ## say what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

# Set-up speaks on stderr, so that programs behind `make -s` own stdout.
# Everything comes by the lock files; what is only there as source is built with what build.lock brought.
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
$(VENV)/.ready: pyproject.toml $(wildcard requirements/*.lock)
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sharemesh needs Python 3.11 or newer; set BASE_PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) (once, a minute or two)" >&2
	@$(BASE_PYTHON) -m venv $(VENV) || \
	  { echo "python3 has no venv module: install your system's python3-venv package" >&2; exit 1; }
	@$(PIP_INSTALL) --require-hashes -r requirements/build.lock >&2
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/setup.lock >&2
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e . >&2
	@$(PY) -m sharemesh_spark.java >/dev/null 2>&1 || \
	  $(PIP_INSTALL) --require-hashes -r requirements/jre.lock >&2
	@touch $@

setup: $(VENV)/.ready ## virtual environment with everything that the other targets need

demo: setup ## the whole mesh on real records, with kills; exit 0 only if every check holds (SEED=n, ENGINE=kafka)
	@$(PY) -m examples.demo $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

test: setup ## lint, types, layers, unit, property, conformance, integration, Spark (ONLY=part)
	@$(PY) -m tests.suite $(if $(ONLY),--only '$(ONLY)')

test-fast: setup ## the part of `test` that takes about a minute
	@$(PY) -m tests.suite --fast

lint: setup ## style, types, layers, generated code, the wire against the last release
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/mypy
	$(PY) -m pytest -q tests/house/test_gencode.py
	@$(PY) -m deploy.wire_changes

format: setup ## let the tools write
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lock: setup ## requirements/*.lock from pyproject.toml: what still fits stays (UPGRADE=1: the newest of everything)
	@$(PY) -m deploy.lock $(if $(UPGRADE),--upgrade)

protos: setup ## protos/ -> services/sharemesh/v1 (committed; drift fails `make lint`)
	$(PY) -m grpc_tools.protoc -Iprotos --python_out=services --pyi_out=services protos/sharemesh/v1/*.proto

conformance: setup ## scenarios and Kafka's own histories -> build/conformance.json
	@$(PY) -m tests.conformance

conformance-driver: setup ## one share partition behind JSON lines on stdin and stdout
	@$(PY) -m tests.conformance.driver

bench: setup ## figures with their floors -> build/bench/PART.json (PART=core …)
	@$(PY) -m tests.bench $(PART)

faults: setup ## trials of kills and corruption -> build/faults/PART.json (PART=mesh|storage|failover|etcd|client|delivery|hostile|kafka|listener|spark, N=trials, ONLY=row, SEED=first)
	@$(PY) -m tests.faults $(PART) $(if $(N),--trials $(N)) $(if $(ONLY),--fault '$(ONLY)') $(if $(SEED),--seed $(SEED))

simulate: setup ## the whole mesh in virtual time, with faults (SEEDS=n START=s WORKLOAD='w …' ENGINE=kafka RESUME=1; SEED=s replays)
	@$(PY) -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),20) --start $(or $(START),1)) $(if $(WORKLOAD),--workload $(WORKLOAD)) $(if $(ENGINE),--engine $(ENGINE)) $(if $(RESUME),--resume)

mutants: setup ## bugs planted in the simulated mesh, each of which a seed must catch (SEEDS=n at most, ENGINE=kafka, ONLY='name …')
	@$(PY) -m tests.simulation.mutants --seeds $(or $(SEEDS),200) $(if $(ENGINE),--engine $(ENGINE)) $(if $(ONLY),--only $(ONLY))

gate: setup ## what a pull request must pass, in at most 15 minutes
	@$(PY) -m tests.suite --fast
	@$(PY) -m tests.conformance
	@$(PY) -m tests.simulation --seeds 40 --start 1
	@$(PY) -m tests.suite --only integration
	@$(PY) -m pytest -q tests/docs/test_site.py

audit: setup ## known vulnerabilities in what the lock files pin: by pip-audit where it reaches its data, and a list
	@test -x build/audit/bin/pip-audit || { $(BASE_PYTHON) -m venv build/audit && \
	  build/audit/bin/python -m pip install --quiet --require-hashes -r requirements/audit.lock; } >&2 || true
	@$(PY) -m deploy.audit $$(test -x build/audit/bin/pip-audit && echo --pip-audit build/audit/bin/pip-audit)

nightly: setup ## what takes hours: the whole gate, suites that others wrote, known vulnerabilities, 1,000 seeds, all fault trials, benchmarks
	@$(MAKE) --no-print-directory audit
	@bash .ci/run
	@$(PY) -m tests.suite --only juries
	@SHAREMESH_PROPERTY_SEQUENCES=5000 $(PY) -m pytest -q -n 2 tests/domain/share_partition/test_against_naive_model.py
	@$(PY) -m tests.simulation --seeds 1000 --start 1001
	@$(PY) -m tests.simulation --engine kafka --seeds 400 --start 1001
	@$(PY) -m tests.simulation --seeds 100 --start 1001 --workload \
	  crowded stalled crashing usurped trimmed refused leaderless delayed delayed_retry stored \
	  handed_over held paused pruned latest unreadable revoked tenants
	@$(PY) -m tests.simulation --engine kafka --seeds 50 --start 1001 --workload \
	  compacted crashing crowded delayed_retry detached lossy pruned tenants usurped
	@$(PY) -m tests.faults
	@$(PY) -m tests.bench

images: setup ## the images as archives in build/images (TAG=t REGISTRY=r BUILDER=docker; without Docker it needs mmdebstrap)
	@$(PY) -m images $(if $(TAG),--tag $(TAG)) $(if $(REGISTRY),--registry $(REGISTRY)) $(if $(BUILDER),--builder $(BUILDER))

charts: setup ## the Helm charts, linted and packaged in build/charts (REGISTRY=r of their images)
	@$(PY) -m deploy.charts $(if $(REGISTRY),--registry $(REGISTRY))

wheel: setup ## the Python package in build/wheel
	@$(PY) -m hatchling build --target wheel --directory build/wheel

release-check: setup ## whether package, charts, CHANGELOG and descriptors agree on the version (TAG=v0.2.0: and with it)
	@$(PY) -m deploy.release check $(if $(TAG),--tag $(TAG))

publish: setup ## push what images (BUILDER=docker), charts and wheel built (REGISTRY=r; needs docker, helm and their logins)
	@$(PY) -m deploy.release publish --registry '$(REGISTRY)'

docs: setup ## pages that are made from the code, and the site of all pages -> build/site
	@$(PY) -m deploy.pages
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

docs-serve: setup ## the site on http://127.0.0.1:8000/docs/, built anew when a page changes
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve --strict

e2e: setup ## the suite on a real Kubernetes: on $KUBECONFIG's, else on one built and started here (ONLY=name)
	@$(PY) -m tests.e2e $(if $(ONLY),--only '$(ONLY)')

e2e-kind: ## the same suite on kind, with images built by Docker (ONLY=name; needs docker, kind, kubectl and helm)
	@deploy/kind/e2e.sh $(if $(ONLY),--only '$(ONLY)')

clean: ## remove what was built here (not the virtual environment)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

.PHONY: help setup demo test test-fast lint format lock protos conformance conformance-driver bench faults simulate mutants gate audit nightly images charts wheel release-check publish docs docs-serve e2e e2e-kind clean
