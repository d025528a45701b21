"""Addresses and ports inside the sandbox. It has a network of its own, so they can be fixed."""

BRIDGE = "cluster0"
HOST = "10.89.0.1"
"""The machine's address on the bridge: servers listen here, since a Service's endpoint must not be on loopback."""
HOST_NETWORK = "10.89.0.1/24"
PODS = "10.88.0.0/16"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"

API, API_BESIDE = 6443, 6444
ETCD, ETCD_PEER = 2379, 2380
VIRT_API, VIRT_CONTROLLER = 8443, 8444
WEBHOOK = 9443
