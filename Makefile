# What people call. Every target sets up what it needs; see README.
.DEFAULT_GOAL := help
VENV ?= .venv
PY := $(VENV)/bin/python
BIN := $(VENV)/bin
BASE_PYTHON ?= python3

help: ## say what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

$(VENV)/.ready: pyproject.toml
	$(BASE_PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -e '.[demo]' --group dev
	touch $@

setup: $(VENV)/.ready ## virtual environment with everything the other targets need

protos: setup ## protos/ -> services/sharemesh/v1 (committed; drift fails `make lint`)
	$(PY) -m grpc_tools.protoc -Iprotos --python_out=services --pyi_out=services protos/sharemesh/v1/*.proto

format: setup ## let the tools write
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: setup ## style, types, layers
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/mypy

.PHONY: help setup protos format lint
