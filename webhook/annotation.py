"""Reading what an object asks for: its annotation `dravirt.io/devices`, parsed once per text."""

from functools import lru_cache

from msgspec import Struct

from dra.claims import PodClaim, pod_claims
from dra.contract import DEVICES_ANNOTATION
from dra.errors import Refused
from dra.fields import kind_of
from dra.reasons import Reason
from dra.request import DeviceRequest, parse_requests
from webhook.decision import RawObject
from webhook.raw import annotations
from webhook.yamltext import load

FIELD = f"metadata.annotations[{DEVICES_ANNOTATION}]"
"""Where a VMI and a pod carry the annotation."""
TEMPLATE_FIELD = f"spec.template.{FIELD}"
"""Where a VM's template carries it."""


class Asked(Struct, frozen=True, cache_hash=True):
    """The devices that an annotation asks for and the pod claims that they become."""

    requests: tuple[DeviceRequest, ...]
    claims: tuple[PodClaim, ...]

    @property
    def device_names(self) -> tuple[str, ...]:
        """The names of all devices, in the order in which they are asked for."""
        return tuple(name for request in self.requests for name in request.device_names)


def annotation_of(item: RawObject) -> object:
    """Return the annotation's value, None where the object has not opted in.

    It is text, but in the template of a VM: the schema of KubeVirt's CRD lets everything through there.
    """
    return annotations(item).get(DEVICES_ANNOTATION)


def read_asked(value: object, path: str) -> Asked:
    """Return what `value`, standing in the field `path`, asks for. Raises Refused with the path of the wrong field."""
    if not isinstance(value, str):
        message = f"must be text, got {kind_of(value)}: put quotes around it, or | before a list"
        raise Refused(Reason.INVALID_ANNOTATION, message, path=path)
    return _read_text(value, path)


@lru_cache(maxsize=128)  # a VM's text comes by as VM, VMI and pod, and again in each replica of a pool
def _read_text(text: str, path: str) -> Asked:
    requests = parse_requests(text, load, path=path)
    return Asked(requests, pod_claims(requests, path=path))
