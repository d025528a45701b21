"""What is known of a cluster. A fact that could not be seen says why."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.config import Config

RawObject = Mapping[str, Any]
Objects = tuple[RawObject, ...]


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that could not be looked at, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server answered when an object was tried (a dry run)."""

    code: int
    message: str = ""
    item: RawObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where dravirt is: its namespace, and the Service that its webhooks are reached by."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the webhook in its ConfigMap: `config`, or what is wrong with it."""

    namespace: str
    name: str
    files: Mapping[str, str]
    """What is read together, by the ConfigMap's key; the first is the one to add to."""
    config: Config
    sidecar_image: str
    """As configured, or as the Deployment gives it."""
    fault: str = ""

    @property
    def subject(self) -> str:
        """What it is called in a finding."""
        return f"ConfigMap {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Trust:
    """How the webhook's certificate stands with those who call it."""

    fault: str
    """What is wrong with the certificate itself, "" where nothing is."""
    distrust: Mapping[str, str]
    """The webhooks, by name, whose caBundle does not lead to the certificate, and what was seen."""
    secret: RawObject | None = None
    """What was looked at; None where it was the server itself."""


@dataclass(frozen=True, slots=True)
class Right:
    """Something that dravirt's service account must be allowed to do."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True)
class Rights:
    """What dravirt's service account may not do, of what its settings need."""

    account: str
    """Its name, in dravirt's namespace."""
    allocations: tuple[Right, ...] = ()
    certificates: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """A look at a cluster. None stands for an object that is not there."""

    now: dt.datetime
    version: str
    """Of the API server, as v1.36.3."""
    served: tuple[str, ...] | Unseen
    """The versions of resource.k8s.io that are served."""
    tried_pod: Verdict | Unseen
    tried_vm: Verdict | Unseen
    kubevirt: RawObject | Unseen | None
    hyperconverged: RawObject | Unseen | None
    registrations: Objects | Unseen
    """The webhook configurations that hold a webhook of dravirt."""
    place: Place
    deployment: RawObject | Unseen
    budgets: Objects | Unseen
    """The PodDisruptionBudgets of dravirt's namespace."""
    endpoints: Objects | Unseen
    """The EndpointSlices of dravirt's Service."""
    settings: Settings | Unseen | None
    """None where the webhook is given no configuration file."""
    trust: Trust | Unseen
    rights: Rights | Unseen
    slices: Objects | Unseen
    classes: Objects | Unseen
    machines: Objects | Unseen
    instances: Objects | Unseen
    """VirtualMachineInstances."""
    patterns: Objects | Unseen
    """Instancetypes and preferences, of both scopes."""


SUBJECTS: Mapping[str, str] = {
    "served": "the versions of resource.k8s.io",
    "tried_pod": "a dry run of a pod with a claim",
    "tried_vm": "a dry run of a VM that asks wrongly",
    "kubevirt": "the KubeVirt object",
    "hyperconverged": "the HyperConverged object",
    "registrations": "the webhook configurations",
    "deployment": "dravirt's Deployment",
    "budgets": "PodDisruptionBudgets of dravirt's namespace",
    "endpoints": "the endpoints of dravirt's Service",
    "settings": "dravirt's configuration file",
    "trust": "the webhook's certificate",
    "rights": "the rights of dravirt's service account",
    "slices": "ResourceSlices",
    "classes": "DeviceClasses",
    "machines": "VirtualMachines",
    "instances": "VirtualMachineInstances",
    "patterns": "instancetypes and preferences",
}
"""What each fact that may be unseen is called."""
