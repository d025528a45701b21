"""What to tell the VM owner when no source knows a device: who was asked, what each said, and what to do.

The text reaches the owner in the condition of the VMI, often all that he sees of the cluster. So it is whole, and short
enough for a gRPC status.
"""

from collections.abc import Sequence

from dra.device import Source
from dra.errors import DravirtError, Failed, Refused
from dra.intent import ClaimedRequest
from dra.reasons import Reason

_MAX_ANSWER = 600

# Source: kubernetes pkg/api/pod/util.go, dropDisabledFields; KEP-5304; dra-driver-nvidia-gpu, feature gates;
# dra-driver-sriov, Helm values.
_NO_METADATA = (
    "Likely causes: Dynamic Resource Allocation is off in the API server, which then drops the claims of pods; the "
    "container dravirt-hook does not list the claim; the DRA driver writes no device metadata (KEP-5304: NVIDIA needs "
    "the feature gates PassthroughSupport and DeviceMetadata, SR-IOV enableDeviceMetadata) and dravirt's allocation "
    "service, which does without, is off"
)
_REMEDIES = {
    Reason.UNRESOLVED: _NO_METADATA,
    Reason.UNKNOWN_REQUEST: (
        "Name a request of the claim in dravirt.io/devices; if it is one, then its driver writes no metadata for it"
    ),
    Reason.NO_IDENTITY: "Name the driver's attribute or variable in dravirt's configuration (attributes, environment)",
    Reason.AMBIGUOUS_ENVIRONMENT: "Name the variables of each driver in dravirt's configuration (environment)",
    Reason.INVALID_ENVIRONMENT: "Name the right variables of the driver in dravirt's configuration (environment)",
    Reason.INVALID_METADATA: "Look at the DRA driver: it wrote what dravirt cannot read",
}


def label(entry: ClaimedRequest) -> str:
    """Return what names the entry in a message: device, claim and request."""
    request = entry.request
    origin = f"claim {request.claim!r}" if request.claim is not None else f"claim template {request.template!r}"
    wanted = "all requests" if request.request is None else f"request {request.request!r}"
    return f"device {request.name!r} ({origin}, {wanted}, pod claim {entry.pod_claim!r})"


def unresolved(
    entry: ClaimedRequest, heard: Sequence[tuple[Source, DravirtError]], *, others: Sequence[str] = ()
) -> DravirtError:
    """Return the error for an entry that no source knows, to be raised.

    Its reason is the first that says more than "not known"; it is Failed where any source may know more later.
    `others` are the entries that no source knows either.
    """
    reason = next((error.reason for _, error in heard if error.reason is not Reason.UNRESOLVED), Reason.UNRESOLVED)
    said = ". ".join(f"{source.capitalize()}: {error.message[:_MAX_ANSWER]}" for source, error in heard)
    also = f". Nor is it known for {', '.join(others)}" if others else ""
    remedy = _REMEDIES.get(reason, "")
    message = f"{label(entry)}: no source knows which device was allocated. {said}{also}. {remedy}"
    later = any(isinstance(error, Failed) for _, error in heard)
    return (Failed if later else Refused)(reason, message.removesuffix(". "))


def unconfirmed(entry: ClaimedRequest, heard: Sequence[tuple[Source, DravirtError]]) -> DravirtError:
    """Return the error for a claim whose device is known and which the service did not confirm, to be raised."""
    said = [error for source, error in heard if source is Source.SERVICE]
    error = said[-1] if said else Failed(Reason.SERVICE_UNREACHABLE, "there is no service to ask")
    message = f"{label(entry)}: other pods may share this claim, and the allocation service did not confirm it"
    return type(error)(error.reason, f"{message}. Service: {error.message[:_MAX_ANSWER]}")
