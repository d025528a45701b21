"""A prepared cluster as the facts that `dravirt doctor` gathers, to break one thing of at a time."""

import base64
import datetime as dt
import json
from dataclasses import replace
from typing import Any

import yaml
from support.examples import ROOT

from certs.certificates import issue, new_authority, write_certificates, write_key
from cli.doctor import dryrun
from cli.doctor.facts import Facts, Place, Rights, Verdict
from cli.doctor.settings import read_settings
from cli.doctor.trust import trust_by_secret

NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)
NAMESPACE, SERVICE = "dravirt-system", "dravirt-webhook"
NAME = f"{SERVICE}.{NAMESPACE}.svc"
AUTHORITY = new_authority(NOW, dt.timedelta(days=365))
LEAF = issue(AUTHORITY, [NAME], NOW, dt.timedelta(days=30))
DENIAL = (
    'admission webhook "vm.dravirt.io" denied the request: spec.template.metadata.annotations[dravirt.io/devices]: '
    "must list at least one device (reason: invalid_annotation)"
)
TEXT = "sidecar:\n  image: registry.example/dravirt-hooksidecar:0.1.0\nallocationService:\n  caFile: /tls/ca.crt\n"

Raw = dict[str, Any]


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def registrations(bundle: bytes | None = None) -> tuple[Raw, ...]:
    """The webhook configurations of `deploy/`, with a caBundle."""
    pem = write_certificates([AUTHORITY.certificate]) if bundle is None else bundle
    items = list(yaml.safe_load_all((ROOT / "deploy" / "base" / "webhooks.yaml").read_text()))
    for item in items:
        item["metadata"]["resourceVersion"] = "7"
        for hook in item["webhooks"]:
            hook["clientConfig"]["caBundle"] = encoded(pem)
    return tuple(items)


def secret(**data: bytes) -> Raw:
    material = {
        "ca.crt": write_certificates([AUTHORITY.certificate]),
        "ca.key": write_key(AUTHORITY.key),
        "tls.crt": write_certificates([LEAF.certificate]),
        "tls.key": write_key(LEAF.key),
    } | data
    metadata = {"name": f"{SERVICE}-tls", "namespace": NAMESPACE}
    return {"kind": "Secret", "metadata": metadata, "data": {name: encoded(pem) for name, pem in material.items()}}


def kubevirt(configuration: Raw | None = None, *, version: str = "v1.8.4", namespace: str = "kubevirt") -> Raw:
    metadata = {"name": "kubevirt", "namespace": namespace, "resourceVersion": "42"}
    spec = {} if configuration is None else {"configuration": configuration}
    return {"metadata": metadata, "spec": spec, "status": {"observedKubeVirtVersion": version}}


KEEPS_MDEVS: Raw = {"mediatedDevicesConfiguration": {"enabled": False}}


def hyperconverged(spec: Raw | None = None, version: str = "v1beta1") -> Raw:
    metadata = {"name": "kubevirt-hyperconverged", "namespace": "openshift-cnv"}
    return {"apiVersion": f"hco.kubevirt.io/{version}", "metadata": metadata, "spec": spec or {}}


def deployment(replicas: int = 2, ready: int = 2, image: str = "registry.example/dravirt-webhook:0.1.0") -> Raw:
    container = {
        "name": "webhook",
        "image": image,
        "args": ["webhook", "--config=/etc/dravirt/config.yaml", "--tls-self-managed"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/dravirt"}],
    }
    labels = {"app.kubernetes.io/name": "dravirt"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": "dravirt-webhook",
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "dravirt-config"}}],
        },
    }
    return {
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        "status": {"readyReplicas": ready} if ready else {},
    }


def budget() -> Raw:
    return {"spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": "dravirt"}}}}


def settings(text: str = TEXT):
    metadata = {"name": "dravirt-config", "namespace": NAMESPACE}
    return read_settings({"metadata": metadata, "data": {"config.yaml": text}}, "config.yaml", deployment())


def endpoint_slice(*, ready: bool = True) -> Raw:
    return {
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}],
        "ports": [{"port": 9}],
    }


def slice_of(
    *attributes: Raw, driver: str = "vgpu.example.com", name: str = "s", generation: int = 1, slices: int = 1
) -> Raw:
    """A ResourceSlice with a device for each mapping of attributes."""
    devices = [
        {"name": f"d{index}", "attributes": {key: {"string": value} for key, value in each.items()}}
        for index, each in enumerate(attributes)
    ]
    pool = {"name": "node-1", "generation": generation, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, "nodeName": "node-1", "devices": devices},
    }


def device_class(driver: str = "vgpu.example.com") -> Raw:
    return {"spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}}


VF = {"resource.kubernetes.io/pciBusID": "0000:3d:00.4"}
MDEV = {"mdevUUID": "b0a6f6ec-5f0f-4b8e-9c6e-0d3b6f0a7a11", "profile": "GRID A100-1-5C"}


def vm(name: str = "vm1", *, asks: str | None = "a100", gpus: list[Raw] | None = None, **spec: Any) -> Raw:
    annotations = {} if asks is None else {"dravirt.io/devices": asks}
    domain = {"devices": {"gpus": gpus} if gpus else {}}
    template = {"metadata": {"annotations": annotations}, "spec": {"domain": domain, **spec}}
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}"}
    return {"kind": "VirtualMachine", "metadata": metadata, "spec": {"template": template}}


def vmi(name: str = "vm1", *, owner: str | None = None, asks: str = "a100", **spec: Any) -> Raw:
    metadata: Raw = {"name": name, "namespace": "team-a", "annotations": {"dravirt.io/devices": asks}}
    if owner:
        metadata["ownerReferences"] = [{"kind": "VirtualMachine", "uid": f"uid-{owner}"}]
    return {"kind": "VirtualMachineInstance", "metadata": metadata, "spec": {"domain": {"devices": {}}, **spec}}


def tried_pod() -> Raw:
    """The pod that is tried, as a server that has DRA gives it back."""
    pod: Raw = json.loads(json.dumps(dryrun.pod("default")))
    return pod


def prepared(**changes: Any) -> Facts:
    """The facts of a cluster in which nothing is wrong, but for `changes`."""
    registered = changes.get("registrations", registrations())
    trust = changes.pop("trust", None) or trust_by_secret(changes.pop("secret", secret()), registered, NAME, NOW)
    whole = Facts(
        now=NOW,
        version="v1.36.3",
        served=("v1",),
        tried_pod=Verdict(201, item=tried_pod()),
        tried_vm=Verdict(403, DENIAL),
        kubevirt=kubevirt(KEEPS_MDEVS),
        hyperconverged=None,
        registrations=registered,
        place=Place(NAMESPACE, SERVICE),
        deployment=deployment(),
        budgets=(budget(),),
        endpoints=(endpoint_slice(),),
        settings=settings(),
        trust=trust,
        rights=Rights("dravirt-webhook"),
        slices=(slice_of(VF),),
        classes=(device_class(),),
        machines=(vm(),),
        instances=(vmi(owner="vm1"),),
        patterns=(),
    )
    return replace(whole, **changes)
