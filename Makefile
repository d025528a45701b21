# Everything a newcomer needs by name; each target says what it does and makes its own .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_WORKERS ?= auto

FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo test check format cov protos bench fuzz libvirt test-libvirt test-libvirt-next \
	cluster-deps cluster-build cluster cluster-shell cluster-down test-cluster test-node test-install test-dra-off \
	test-arm64 test-allocations bench-node bench-allocations constraints release clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	@echo "==> pytest (suites of their own: make test-libvirt, and as root make test-cluster and make test-node)"
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

bench: $(STAMP) ## Measure webhook and sidecar beside their aims, and as root with Go the allocation service
	@echo "==> bench/admission.py, bench/sidecar.py"
	@$(BIN)/python bench/admission.py
	@PYTHONPATH=tests $(BIN)/python bench/sidecar.py
	@if [ "$$(id -u)" = 0 ] && command -v go > /dev/null; then $(MAKE) --no-print-directory bench-allocations; \
		else echo "==> bench/allocations.py is left out: it needs root and Go"; fi

bench-allocations: $(STAMP) ## Measure the allocation service in a large cluster of its own (root)
	@echo "==> bench/allocations.py"
	@PYTHONPATH=tests $(BIN)/python bench/allocations.py

fuzz: $(STAMP) ## Fuzz what reads hostile input, for FUZZ_SECONDS in all
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@echo "==> fuzzing for $(FUZZ_SECONDS) s"
	@cd tests && ../$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

libvirt: $(STAMP) ## Install libvirt and QEMU for the libvirt tests (Debian, root)
	@tests/integration/libvirt/install.sh $(BIN)/python

test-libvirt: libvirt ## Let a real libvirt and QEMU judge every domain, and print the matrix
	@$(BIN)/pytest --numprocesses=$(PYTEST_WORKERS) --dist=worksteal --quiet tests/integration/libvirt

test-libvirt-next: libvirt ## The same with the newer libvirt of Debian's backports (root)
	@tests/integration/libvirt/next.sh $(BIN)/pytest --numprocesses=$(PYTEST_WORKERS) --dist=worksteal --quiet \
		tests/integration/libvirt

test-allocations: $(STAMP) ## Take real claims, pods and tokens to the allocation service (root)
	@PYTHONPATH=tests $(BIN)/python tests/integration/allocations/run.py --quiet

cluster-deps: ## Install what a cluster on this machine needs (Debian, root)
	@tests/cluster/install.sh

cluster-build: $(STAMP) ## Build the cluster's programs and images, once (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster build

test-cluster: $(STAMP) ## Run the suites on a real API server and KubeVirt (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster test cluster

test-node: $(STAMP) ## Run the suites on a real node with kubelet and containerd (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster test node

test-dra-off: $(STAMP) ## Run what is seen where DRA is off, on Kubernetes 1.34: 5 more minutes to build (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster test dra_off

test-arm64: $(STAMP) ## Build both images for arm64 and run them by emulation: 12 more minutes to build (Debian, root)
	@PYTHONPATH=tests $(BIN)/python -m cluster test arm64

test-install: $(STAMP) ## Install dravirt on a node as users do, and rotate, break, upgrade and remove it (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster test install

cluster: $(STAMP) ## Start a cluster to try things in, and print what to try (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster up

cluster-shell: $(STAMP) ## Open a shell in which kubectl reaches that cluster
	@PYTHONPATH=tests $(BIN)/python -m cluster shell

cluster-down: $(STAMP) ## End that cluster
	@PYTHONPATH=tests $(BIN)/python -m cluster down

bench-node: $(STAMP) ## Measure the way from a VM to its answered hook, on a real node (root, Go)
	@PYTHONPATH=tests $(BIN)/python -m cluster bench

constraints: $(STAMP) ## Pin the packages of the images anew, to the newest that pyproject.toml allows
	@$(BIN)/python -m release.constraints > build-constraints.tmp
	@mv build-constraints.tmp deploy/image/constraints.txt

release: $(STAMP) ## Write manifests, images.txt, package lists and checksums to dist/ (REGISTRY=..., KUBECTL=...)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[release]'
	@$(BIN)/python -m release --registry '$(REGISTRY)' --kubectl '$(KUBECTL)'

protos: ## Make the gRPC stubs anew, with the oldest grpcio-tools that pyproject.toml allows
	@echo "==> protoc over hooksidecar/api/*.proto"
	@$(PYTHON) -m venv build/protoc
	@build/protoc/bin/pip install --quiet --disable-pip-version-check 'grpcio-tools==1.80.0'
	@build/protoc/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. hooksidecar/api/*.proto

clean: ## Remove what the other targets made
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
