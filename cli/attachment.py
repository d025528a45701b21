"""The second half of a simulation: the hook sidecar finds the allocated devices and edits the domain."""

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lxml import etree

from cli.account import Account, listed
from cli.admission import AdmittedVM
from cli.artefacts import Artefacts
from cli.case import Case
from cli.launcher import connect, define, with_guest_addresses
from cli.manifests import to_json
from cli.process import running
from cli.resolve import find_devices
from dra.contract import INTENT_ENV, METADATA_DIR, SIDECAR_CONTAINER, SOCKET_NAME
from dra.device import Device
from dra.errors import Refused
from dra.reasons import Reason
from webhook.raw import mapping, mappings, named

_NAMESPACE = re.compile(r" xmlns:\w+=\"[^\"]*\"")


def attach(case: Case, admitted: AdmittedVM, account: Account, artefacts: Artefacts) -> None:
    """Run the sidecar of the admitted pod on the case's node and let it edit the domain in two passes."""
    account.heading(3, "Allocated: what the scheduler chose")
    _tell_allocation(case, account)
    account.heading(4, "Resolved: the sidecar finds the devices on the node")
    # The path of a UNIX socket is limited to 107 bytes, which a folder named by --out may exceed.
    with tempfile.TemporaryDirectory(prefix="dravirt-") as short:
        env = _environment(case, admitted.pod, Path(short))
        for volume in ("DRAVIRT_SOCKET_DIR", "DRAVIRT_STATE_DIR"):
            Path(env[volume]).mkdir()  # as the kubelet does for the pod's emptyDirs
        socket = Path(env["DRAVIRT_SOCKET_DIR"]) / SOCKET_NAME
        log = artefacts.write("sidecar.log", "")
        with running("sidecar", ["sidecar"], log, ready=lambda _: socket.is_socket(), env=env) as server:
            hook = connect(socket)
            account.fact("sidecar", f"serving after {server.seconds:.2f} s, Info in {hook.info_seconds * 1000:.1f} ms")
            account.fact("hook API", f"{listed(hook.versions)}; {listed(hook.hook_points)}")
            devices = find_devices(env)
            artefacts.write("devices.json", to_json([device.to_json() for device in devices]))
            for device in devices:
                account.fact(device.name, _describe(device))
            _check_allocation(case, devices)
            account.heading(5, "Attached: the domain before and after OnDefineDomain")
            first = define(hook, case.domain, to_json(admitted.vmi).encode())
            second_input = with_guest_addresses(first)
            second = define(hook, second_input, to_json(admitted.vmi).encode())
    artefacts.write("vmi.json", to_json(admitted.vmi))
    artefacts.write("domain.pass1.xml", first)
    artefacts.write("domain.pass2.xml", second)
    account.difference(_hostdevs(case.domain), _hostdevs(first))
    _check_second_pass(second_input, second)
    account.fact("second pass", "the same devices, at the guest addresses that libvirt gave them")


def _tell_allocation(case: Case, account: Account) -> None:
    for claim in case.claims:
        for result in _results(claim):
            account.fact(
                str(mapping(claim, "metadata").get("name")), f"request {result.get('request')}: {_path(result)}"
            )


def _check_allocation(case: Case, devices: Iterable[Device]) -> None:
    """Refuse a device that no claim of the case was allocated: the node's files belong to another case."""
    allocated = {_path(result) for claim in case.claims for result in _results(claim)}
    for device in devices:
        found = _path(device.to_json())
        # A variable says which device it is, not how its driver calls it.
        if device.driver and device.device and found not in allocated:
            message = f"{device.name} is {found} by its {device.source}, the claims have {listed(sorted(allocated))}"
            raise Refused(Reason.CHECK_FAILED, message, path="resourceclaims.yaml")


def _results(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(claim, "status", "allocation", "devices", "results")


def _path(device: Mapping[str, Any]) -> str:
    """Return a device's name in the cluster, of an allocation result or of a device as `resolve` prints it."""
    return f"{device.get('driver')}/{device.get('pool')}/{device.get('device')}"


def _environment(case: Case, pod: Mapping[str, Any], short: Path) -> dict[str, str]:
    """Return the environment of the sidecar: what the pod says, on the case's node instead of a real one."""
    containers = mappings(pod, "spec", "initContainers")
    sidecar = containers[named(containers, SIDECAR_CONTAINER) or 0]
    written = {str(entry.get("name")): str(entry.get("value")) for entry in mappings(sidecar, "env")}
    written[INTENT_ENV] = written[INTENT_ENV].replace("$$", "$")  # as the kubelet does
    return {
        "PATH": os.environ.get("PATH", ""),
        **written,
        **case.environment,
        "DRAVIRT_SOCKET_DIR": str(short / "hooks"),
        "DRAVIRT_STATE_DIR": str(short / "state"),
        "DRAVIRT_ROOT": str(case.node),
        "DRAVIRT_METADATA_DIR": str(case.node) + METADATA_DIR,
    }


def _describe(device: Device) -> str:
    backing = {True: "MIG-backed", False: "time-sliced", None: None}[device.mig_backed]
    learnt = [device.kind, device.profile, backing, f"IOMMU group {device.iommu_group}", f"from {device.source}"]
    return f"{device.identity} ({', '.join(filter(None, learnt))})"


def _hostdevs(domain: bytes) -> str:
    """Return the host devices of a domain, one element a line, for a difference that people can read."""
    lines = []
    for hostdev in etree.fromstring(domain).iterfind("devices/hostdev"):
        etree.indent(hostdev)
        hostdev.tail = None
        lines.append(_NAMESPACE.sub("", etree.tostring(hostdev, encoding="unicode")))
    return "\n".join(lines)


def _check_second_pass(given: bytes, returned: bytes) -> None:
    """Refuse a second pass that changed a host device: KubeVirt defines what the last pass returns."""
    before, after = (
        [_shape(each) for each in etree.fromstring(xml).iterfind("devices/hostdev")] for xml in (given, returned)
    )
    if before != after:
        raise Refused(Reason.CHECK_FAILED, "the second pass changed a host device")


def _shape(element: etree._Element) -> tuple[object, ...]:
    """Return what libvirt reads of an element: neither blanks nor the order of attributes and children count."""
    return element.tag, sorted(element.items()), sorted(map(_shape, element), key=str)
