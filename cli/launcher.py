"""virt-launcher's side of the hook protocol: a dial, Info, then OnDefineDomain once per pass.

Source: KubeVirt pkg/hooks/manager.go (versions, deadlines) and virtwrap/nichotplug.go (passes).
"""

import time
from dataclasses import dataclass
from pathlib import Path

import grpc
from lxml import etree

from dra.errors import DravirtError, Failed, Refused
from dra.reasons import Reason
from hooksidecar.api.info_pb2 import InfoParams
from hooksidecar.api.info_pb2_grpc import InfoStub
from hooksidecar.api.v1alpha3_pb2 import OnDefineDomainParams
from hooksidecar.api.v1alpha3_pb2_grpc import CallbacksStub

_DIAL_SECONDS = 20.0
"""virt-launcher dials again and again: a socket is there a moment before its server listens."""
_INFO_SECONDS = 1.0
"""From the dial on: who does not answer in time ends virt-launcher."""
_DEFINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook sidecar that answered Info."""

    channel: grpc.Channel
    versions: tuple[str, ...]
    hook_points: tuple[str, ...]
    info_seconds: float


def connect(socket: Path) -> Hook:
    """Return the hook behind `socket`. Raises Failed where none listens, or Info is late: virt-launcher would panic."""
    channel = grpc.insecure_channel(f"unix://{socket}", options=[("grpc.default_authority", "localhost")])
    try:
        grpc.channel_ready_future(channel).result(timeout=_DIAL_SECONDS)
        started = time.monotonic()
        info = InfoStub(channel).Info(InfoParams(), timeout=_INFO_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise Failed(Reason.NOT_SERVING, f"nobody listens on {socket}") from error
    except grpc.RpcError as error:
        raise Failed(Reason.NOT_SERVING, f"Info on {socket}: {error.details()}") from error
    points = tuple(point.name for point in info.hookPoints)
    return Hook(channel, tuple(info.versions), points, time.monotonic() - started)


def define(hook: Hook, domain: bytes, vmi: bytes) -> bytes:
    """Return the domain as the hook leaves it.

    Raises Refused or Failed with the hook's text, which the VMI's condition shows in a cluster.
    """
    params = OnDefineDomainParams(domainXML=domain, vmi=vmi)
    try:
        result = CallbacksStub(hook.channel).OnDefineDomain(params, timeout=_DEFINE_SECONDS)
    except grpc.RpcError as error:
        raise _answered(error.code(), str(error.details())) from error
    return bytes(result.domainXML)


def _answered(code: grpc.StatusCode, details: str) -> DravirtError:
    """Return the error that the hook answered with, under its own reason."""
    message, _, reason = details.removesuffix(")").rpartition(" (reason: ")
    known = {each.value: each for each in Reason}.get(reason)
    if known is None:
        return Failed(Reason.NOT_SERVING, f"OnDefineDomain: {details}")
    family = Refused if code is grpc.StatusCode.FAILED_PRECONDITION else Failed
    return family(known, f"OnDefineDomain: {message}")


def with_guest_addresses(domain: bytes) -> bytes:
    """Return the domain as the next pass sees it: libvirt has given each host device a place on a root port."""
    root = etree.fromstring(domain)
    for index, hostdev in enumerate(root.iterfind("devices/hostdev")):
        if hostdev.find("address") is None:
            bus = f"0x{0x20 + index:02x}"
            etree.SubElement(hostdev, "address", type="pci", domain="0x0000", bus=bus, slot="0x00", function="0x0")
    return etree.tostring(root)
