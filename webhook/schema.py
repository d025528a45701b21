"""What of a review is decoded: the fields that are read, and nothing else.

Most of a review is never looked at; the `managedFields` of a pod are half of it. What no type here names is skipped as
text, with no object made of it: a live launcher pod's review takes 7 us then, where decoding all of it takes 16.

The envelope has types. The object in it has none: anyone can send any shape of it, so each field is there as it came,
of whatever type, and `webhook.raw` looks into it.
Source: k8s.io/api/admission/v1, AdmissionReview; k8s.io/apimachinery/pkg/apis/meta/v1, ObjectMeta; k8s.io/api/core/v1.
"""

from typing import Any, Generic, TypedDict, TypeVar

from msgspec import Struct

Scalar = str | int | float | bool | None
NoMapping = list[Any] | Scalar
"""What can stand where a mapping belongs."""
NoList = dict[str, Any] | Scalar


class Metadata(TypedDict, total=False):
    """What is read of any object's metadata."""

    generateName: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    deletionTimestamp: Any


class RawVM(TypedDict, total=False):
    """A VM or VMI: small beside its managedFields."""

    metadata: Metadata | NoMapping
    spec: Any
    status: Any


class Item(TypedDict, total=False):
    """What is read of the items of a pod's lists: volumes, mounts, variables, claims, pull secrets."""

    name: Any
    mountPath: Any
    emptyDir: Any
    resourceClaimName: Any
    resourceClaimTemplateName: Any


class Container(TypedDict, total=False):
    """A container, init containers among them."""

    name: Any
    command: Any
    args: Any
    env: list[Item | NoMapping] | NoList
    resources: Any
    volumeMounts: list[Item | NoMapping] | NoList


class PodSpec(TypedDict, total=False):
    """The spec of a pod."""

    containers: list[Container | NoMapping] | NoList
    initContainers: list[Container | NoMapping] | NoList
    volumes: list[Item | NoMapping] | NoList
    imagePullSecrets: list[Item | NoMapping] | NoList
    resourceClaims: list[Item | NoMapping] | NoList


class RawPod(TypedDict, total=False):
    """A pod."""

    metadata: Metadata | NoMapping
    spec: PodSpec | NoMapping


T = TypeVar("T")


class Kind(Struct, frozen=True):
    """What an object is, its version apart."""

    group: str | None = None
    kind: str | None = None


class UserInfo(Struct, frozen=True):
    """Who asks."""

    username: str | None = None


class Request(Struct, Generic[T], frozen=True):
    """What is asked."""

    uid: str = ""
    kind: Kind = Kind()
    subResource: str | None = None  # noqa: N815 (the field's name)
    operation: str = ""
    namespace: str | None = None
    name: str | None = None
    userInfo: UserInfo = UserInfo()  # noqa: N815
    object: T | None = None
    oldObject: T | None = None  # noqa: N815


class Review(Struct, Generic[T], frozen=True):
    """A review, as far as its sender fills it."""

    apiVersion: Any = None  # noqa: N815
    kind: Any = None
    request: Request[T] = Request()
