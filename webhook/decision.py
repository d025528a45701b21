"""The question and the answer of admission: what the API server asks, and what a webhook decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from dra.reasons import Reason
from webhook.patch import Patch

RawObject = Mapping[str, Any]
"""A Kubernetes object as the API server sent it: typed models would lose unknown fields."""


class AdmissionRequest(Struct, frozen=True):
    """What is asked about: one object, before and after, and who changes it.

    Source: k8s.io/api/admission/v1, AdmissionRequest.
    """

    uid: str
    kind: str
    operation: str
    namespace: str
    """From the request: a pod's own metadata may hold none."""
    name: str
    """Empty for an object that is created with generateName."""
    username: str
    object: RawObject
    old_object: RawObject | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a webhook decided, and why."""

    reason: Reason
    allowed: bool = True
    message: str = ""
    """Why the object is denied, for the person who sent it."""
    patch: Patch = Patch()  # noqa: RUF009 (frozen)
    warnings: tuple[str, ...] = ()

    @classmethod
    def deny(cls, reason: Reason, message: str) -> "Decision":
        """Return a denial, whose text ends with the reason code so that it can be searched for."""
        return cls(reason, allowed=False, message=f"{message} (reason: {reason})")
