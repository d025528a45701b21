"""dravirt itself, from the working tree: the webhook's server, and the configurations that make it known."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cluster.api import Api, Object
from cluster.controlplane import ControlPlane
from cluster.images import DRAVIRT_IMAGE, TREE
from cluster.kubevirt import publish_service, with_ca
from cluster.network import HOST, WEBHOOK
from cluster.process import Process, Processes

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
        """Start the server where it does not run, and wait until it is ready."""
        if self.process is None:
            environment = {"PYTHONPATH": str(TREE), "PATH": "/usr/bin:/bin"}
            self.process = self.processes.start("dravirt-webhook", self.command, environment=environment)
            self.process.wait_until_listening(HOST, WEBHOOK, seconds=30)

    def down(self) -> None:
        """End the server, as when a Deployment is scaled to none."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the configuration file. A server that runs reads it within two seconds."""
        self.config.write_text(json.dumps(config))


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
    dravirt.configure({"sidecar": {"image": DRAVIRT_IMAGE}})
    dravirt.up()
    register(api, plane.authority.pem)
    return dravirt


def register(api: Api, ca: str) -> list[Object]:
    """Apply the webhook configurations of `deploy/`, with the authority that signed the server's certificate."""
    return [api.apply(with_ca(each, ca)) for each in yaml.safe_load_all(WEBHOOKS.read_text())]
