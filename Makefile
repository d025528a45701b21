# Everything a newcomer needs by name; each target says what it does and makes its own .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo test check format cov protos clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@echo "==> making $(VENV) with $$($(PYTHON) --version) and installing dravirt with its development tools"
	@$(PYTHON) -c 'import sys; sys.exit("dravirt needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## Run the main job: one annotation becomes a VM with a MIG-backed vGPU
	@echo "==> dravirt simulate examples/mig-backed-mdev"
	@$(BIN)/dravirt simulate examples/mig-backed-mdev

test: $(STAMP) ## Run the tests (under 5 minutes, no root)
	@echo "==> pytest"
	@$(BIN)/pytest --numprocesses=$(PYTEST_WORKERS) --dist=worksteal --quiet

cov: $(STAMP) ## Run the tests and fail below the coverage floor
	@echo "==> pytest with coverage"
	@$(BIN)/pytest --numprocesses=$(PYTEST_WORKERS) --dist=worksteal --quiet --cov --cov-report=term

check: $(STAMP) ## Check style, types and imports
	@echo "==> ruff format, ruff check"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@echo "==> mypy --strict"
	@$(BIN)/mypy --no-error-summary
	@echo "==> import-linter"
	@$(BIN)/lint-imports

format: $(STAMP) ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

protos: ## Make the gRPC stubs anew, with the oldest grpcio-tools that pyproject.toml allows
	@echo "==> protoc over hooksidecar/api/*.proto"
	@$(PYTHON) -m venv build/protoc
	@build/protoc/bin/pip install --quiet --disable-pip-version-check 'grpcio-tools==1.80.0'
	@build/protoc/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. hooksidecar/api/*.proto

clean: ## Remove what the other targets made
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
