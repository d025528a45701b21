"""The kubelet's protocol in Python, generated from `protos/` when it is first imported."""

import sys
from pathlib import Path
from typing import Any

import grpc


def _load(name: str) -> tuple[Any, Any]:
    folder = str(Path(__file__).with_name("protos"))
    sys.path.insert(0, folder)  # protoc looks for files along Python's path
    try:
        return grpc.protos_and_services(f"{name}.proto")
    finally:
        sys.path.remove(folder)


dra, dra_services = _load("dra")
registration, registration_services = _load("registration")
