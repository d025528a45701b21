"""dravirt as users have it: a kustomization of their own on one of `deploy/overlays`, applied by kubectl."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cluster.api import Api, Object, is_true
from cluster.images import TREE
from cluster.process import until

from install.kubectl import Kubectl

DEPLOYMENT, SECRET, CONFIGURATION, WEBHOOKS = "dravirt-webhook", "dravirt-webhook-tls", "dravirt-config", "dravirt"
REGISTRATION = "admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
REPLICAS = 2


@dataclass(slots=True)
class Installation:
    """An installation that can be changed, put out of service and removed, each as an administrator would do it."""

    api: Api
    kubectl: Kubectl
    folder: Path
    """The user's kustomization."""
    overlay: str = "self-managed"
    images: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "dravirt-system"
    prefix: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What the user has in the configuration file."""
    patches: list[Object] = field(default_factory=list)
    components: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    """More arguments of the webhook: of an option that is given twice, the last one counts."""

    def apply(self) -> str:
        """Apply the kustomization as it is now, and return what kubectl prints."""
        self.write()
        return self.kubectl("apply", "-k", self.folder)

    def delete(self) -> str:
        """Remove what the kustomization has brought, and return what kubectl prints."""
        return self.kubectl("delete", "-k", self.folder, "--timeout=90s")

    def write(self) -> None:
        """Write the user's kustomization."""
        self.folder.mkdir(exist_ok=True)
        above = os.path.relpath(TREE / "deploy", self.folder)
        kustomization: Object = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{above}/overlays/{self.overlay}"],
            "images": [_image(*each) for each in self.images.items()],
            "patches": [*self.patches, *self._configured(), *self._more_arguments()],
        }
        if self.components:
            kustomization["components"] = [f"{above}/components/{each}" for each in self.components]
        if self.labels:
            kustomization["labels"] = [{"pairs": dict(self.labels)}]
        if self.prefix:
            kustomization["namePrefix"] = self.prefix
        if self.namespace != "dravirt-system":
            kustomization["namespace"] = self.namespace
        (self.folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization, sort_keys=False))

    def _configured(self) -> list[Object]:
        if not self.config:
            return []
        operation = {"op": "add", "path": "/data/config.yaml", "value": yaml.safe_dump(dict(self.config))}
        return [{"target": {"kind": "ConfigMap", "name": CONFIGURATION}, "patch": json.dumps([operation])}]

    def _more_arguments(self) -> list[Object]:
        path = "/spec/template/spec/containers/0/args/-"
        operations = [{"op": "add", "path": path, "value": each} for each in self.arguments]
        return [{"target": {"kind": "Deployment"}, "patch": json.dumps(operations)}] if operations else []

    def name(self, base: str) -> str:
        """Return the name of an object of `deploy/` in this installation."""
        return self.prefix + base

    @property
    def deployment(self) -> Object:
        """The Deployment as it is now."""
        found = self.api.get("apps/v1", "Deployment", self.name(DEPLOYMENT), self.namespace)
        assert found, "there is no Deployment"
        return {"apiVersion": "apps/v1", "kind": "Deployment", **found}

    def _all_pods(self) -> list[Object]:
        labels = "app.kubernetes.io/name=dravirt,app.kubernetes.io/component=webhook"
        return self.api.list("v1", "Pod", self.namespace, labels)

    def pods(self) -> list[Object]:
        """Return the pods of the Deployment that are not ending, the oldest first."""
        pods = [each for each in self._all_pods() if "deletionTimestamp" not in each["metadata"]]
        pods.sort(key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
        return [{"apiVersion": "v1", "kind": "Pod", **each} for each in pods]

    def wait_until_ready(self, replicas: int = REPLICAS, *, seconds: float = 270, alone: bool = False) -> list[Object]:
        """Return the pods when so many of the Deployment's present template are ready; `alone`: and none is ending.

        The pods are asked as well: the Deployment's status says for a moment what was before one of them went.
        """

        def ready() -> bool:
            item = self.deployment
            status, wanted = item.get("status", {}), item["spec"]["replicas"]
            seen = status.get("observedGeneration") == item["metadata"]["generation"]
            counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas")]
            pods = self.pods()
            are_ready = len(pods) == replicas and all(is_true(pod, "Ready") for pod in pods)
            return seen and wanted == replicas and counts == [replicas] * 3 and are_ready

        until(ready, seconds=seconds, what=f"{replicas} replicas of dravirt ready", failed=self._explain)
        pods = self.pods()
        uids = {each["metadata"]["uid"] for each in pods}
        until(lambda: self.endpoints() == uids, seconds=60, what="a Service with their endpoints")
        if alone:
            until(lambda: len(self._all_pods()) == replicas, seconds=60, what="no replica that ends")
        return pods

    def delete_pod(self, pod: Object) -> None:
        """Delete a pod and do not wait until it has ended."""
        self.kubectl("-n", self.namespace, "delete", "pod", pod["metadata"]["name"], "--wait=false")

    def endpoints(self) -> set[str]:
        """Return the UIDs of the replicas that the Service has."""
        labels = f"kubernetes.io/service-name={self.name(DEPLOYMENT)}"
        found = self.api.list("discovery.k8s.io/v1", "EndpointSlice", self.namespace, labels)
        each = [endpoint for item in found for endpoint in item["endpoints"] or ()]
        return {endpoint["targetRef"]["uid"] for endpoint in each if endpoint["conditions"].get("ready")}

    def down(self) -> None:
        """Put dravirt out of service: no replica is left, and none that still answers while it ends."""
        self._scale(0)
        until(lambda: not self._all_pods(), seconds=90, what="no replica")
        until(lambda: not self.endpoints(), seconds=60, what="a Service without endpoints")

    def up(self) -> None:
        """Put it back."""
        self._scale(REPLICAS)
        self.wait_until_ready()

    def secret(self) -> dict[str, str]:
        """Return the data of the certificates' Secret, in base64."""
        item = self.api.get("v1", "Secret", self.name(SECRET), self.namespace)
        return (item or {}).get("data") or {}

    def secret_object(self) -> Object:
        """Return what names the certificates' Secret."""
        metadata = {"name": self.name(SECRET), "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    def bundles(self) -> list[str]:
        """Return the caBundle of each webhook, in base64, "" where there is none."""
        found = (self.api.get(REGISTRATION, kind, self.name(WEBHOOKS)) for kind in KINDS)
        return [hook["clientConfig"].get("caBundle", "") for each in found if each for hook in each["webhooks"]]

    def _scale(self, replicas: int) -> None:
        self.api.merge(self.deployment, {"spec": {"replicas": replicas}})

    def _explain(self, *, late: bool) -> str | None:
        if not late:
            return None
        pods = [f"{each['metadata']['name']}: {json.dumps(each['status'])[:1500]}" for each in self.pods()]
        events = [f"{each['reason']}: {each['message'][:300]}" for each in self.api.list("v1", "Event", self.namespace)]
        return "\n".join(["", *pods, *events[-10:]])


def _image(name: str, given: str) -> Object:
    repository, _, tag = given.rpartition(":")
    return {"name": name, "newName": repository, "newTag": tag}
