"""dravirt itself, from the working tree: the webhook's server, and the configurations that make it known."""

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from cluster import controlplane
from cluster.api import Api, Object, denial
from cluster.controlplane import ControlPlane
from cluster.images import SIDECAR_IMAGE, TREE
from cluster.kubevirt import publish_service, with_ca
from cluster.network import HOST, WEBHOOK
from cluster.process import Process, Processes, until

NAMESPACE = "dravirt-system"
SERVICE = "dravirt-webhook"
WEBHOOKS = TREE / "deploy" / "base" / "webhooks.yaml"


@dataclass(slots=True)
class Dravirt:
    """A webhook that runs, and can be stopped and started again."""

    processes: Processes
    command: list[str]
    config: Path
    process: Process | None = field(default=None)

    def up(self) -> None:
        """Start the server where it does not run, or is stuck, and wait until it is ready."""
        if self.process is not None:
            self.process.send(signal.SIGCONT)
        else:
            environment = {"PYTHONPATH": str(TREE), "PATH": "/usr/bin:/bin"}
            self.process = self.processes.start("dravirt-webhook", self.command, environment=environment)
            self.process.wait_until_listening(HOST, WEBHOOK, seconds=120)

    def down(self) -> None:
        """End the server, as when a Deployment is scaled to none."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def get_stuck(self) -> None:
        """Let the server take connections and answer nothing."""
        assert self.process is not None
        self.process.send(signal.SIGSTOP)

    @contextmanager
    def asking(self, kubeconfig: Path) -> Iterator[None]:
        """Let the server, which must have a kubeconfig, ask an API server by another one for a while."""
        before = list(self.command)
        self.down()
        self.command.append(f"--kubeconfig={kubeconfig}")  # the last one counts
        self.up()
        try:
            yield
        finally:
            self.down()
            self.command[:] = before
            self.up()

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the configuration file, and wait until a server that runs goes by it. Raises NotReady."""
        said = self.process.log.stat().st_size if self.process else 0
        unfinished = self.config.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(config))
        unfinished.rename(self.config)
        if self.process is not None:
            self.process.wait_until(lambda: self._has_read_again(said), seconds=30, what="its configuration read again")

    def _has_read_again(self, said: int) -> bool:
        """Let the server look at its file, which it does when it is asked something."""
        assert self.process is not None
        with suppress(httpx.TransportError):
            httpx.get(f"https://{HOST}:{WEBHOOK}/readyz", verify=False, trust_env=False)
        return b"the configuration was read again" in self.process.log.read_bytes()[said:]


def start(processes: Processes, plane: ControlPlane, folder: Path) -> Dravirt:
    """Start the webhook and register it. Raises NotReady."""
    folder.mkdir()
    api = plane.api()
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    publish_service(api, NAMESPACE, SERVICE, WEBHOOK)
    pair = plane.authority.issue("dravirt-webhook", f"{SERVICE}.{NAMESPACE}.svc", HOST)
    config = folder / "config.json"
    command = [sys.executable, "-m", "cli", "webhook", f"--host={HOST}", f"--port={WEBHOOK}", f"--config={config}"]
    command += [f"--tls-cert={pair.certificate}", f"--tls-key={pair.key}", "--drain-seconds=0"]
    dravirt = Dravirt(processes, command, config)
    dravirt.configure({"sidecar": {"image": SIDECAR_IMAGE}})
    dravirt.up()
    register(api, plane.authority.pem)
    return dravirt


def register(api: Api, ca: str) -> list[Object]:
    """Apply the webhook configurations of `deploy/`, with the authority that signed the server's certificate.

    Return them once the API server goes by them. Raises NotReady.
    """
    applied = [api.apply(with_ca(each, ca)) for each in yaml.safe_load_all(WEBHOOKS.read_text())]
    for annotation, webhook in (("devices", "pod"), ("injected", "injected-pod")):
        until(
            lambda: f'"{webhook}.dravirt.io" denied the request' in refusal(api, annotation),  # noqa: B023 (ends here)
            seconds=60,
            what=f"the API server asking {webhook}.dravirt.io",
        )
    return applied


def refusal(api: Api, annotation: str = "devices") -> str:
    """Return why a launcher pod that nobody but KubeVirt may create is refused, "" where it is not: a dry run.

    Of the `annotation` devices the mutating webhook has to refuse it, of `injected` the validating one.
    """
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "none", "uid": "none"}
    metadata = {
        "name": "none",
        "namespace": "default",
        "labels": {"kubevirt.io": "virt-launcher"},
        "annotations": {f"dravirt.io/{annotation}": "none"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec = {"containers": [{"name": "compute", "image": "none"}]}
    return denial(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def allocation_rights() -> tuple[Object, Object]:
    """Return the ClusterRole of `deploy/` for the allocation service, and what binds it to the webhook's account."""
    (role,) = yaml.safe_load_all((WEBHOOKS.parent / "rbac-allocations.yaml").read_text())
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "allocations"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": controlplane.WEBHOOK}],
    }
    return role, binding
