"""Nodes without a kubelet: the scheduler binds pods to them, and nothing runs."""

from cluster.api import Api
from cluster.kubevirt import prepare_node


def make_node(api: Api, name: str) -> str:
    """Make a node and return its name."""
    node = api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    offered = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "500Gi"}
    condition = {"type": "Ready", "status": "True", "reason": "Handmade", "message": "no kubelet"}
    status = {"capacity": offered, "allocatable": offered, "conditions": [condition]}
    api.merge(node, {"status": status}, subresource="status")
    prepare_node(api, name)
    return name


def end_pods(api: Api) -> None:
    """Let go of the pods that are being deleted, as the kubelet does when their containers have ended."""
    for each in api.request("GET", "/api/v1/pods")["items"]:
        if "deletionTimestamp" in each["metadata"]:
            api.delete({"apiVersion": "v1", "kind": "Pod", **each}, now=True)
