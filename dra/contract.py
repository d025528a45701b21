"""Names that others script against: annotations, containers, volumes, paths and limits."""

from typing import Final

DOMAIN: Final = "dravirt.io"

DEVICES_ANNOTATION: Final = "dravirt.io/devices"
"""What the VM owner asks for."""
COPIED_ANNOTATION: Final = "dravirt.io/copied"
"""On a VM: sha256 of the value that dravirt copied from the VM's metadata to its template."""
INJECTED_ANNOTATION: Final = "dravirt.io/injected"
"""On a pod: what was injected, as JSON `{version, mode, devices}`."""
INJECTED_LABEL: Final = "dravirt.io/injected"
"""On a pod: "true", to select injected pods by."""

PLACEHOLDER_RESOURCE: Final = "dravirt.io/gpu"
"""The extended resource that no node has: what a VMI's placeholder GPU asks for."""
PLACEHOLDER_ENV: Final = "MDEV_PCI_RESOURCE_DRAVIRT_IO_GPU"
"""The variable in which virt-launcher looks for the devices of the placeholder resource.

Source: KubeVirt pkg/util/util.go, ResourceNameToEnvVar.
"""
PLACEHOLDER_ALIAS: Final = "ua-gpu-"
"""The alias prefix that KubeVirt gives a GPU of the VMI. Source: KubeVirt virtwrap/device/hostdevice/gpu."""
APPEND_ALIAS: Final = "ua-dravirt-"
"""The alias prefix of a device that the sidecar appends where there is no placeholder."""

COMPUTE_CONTAINER: Final = "compute"
SIDECAR_CONTAINER: Final = "dravirt-hook"
POD_CLAIM_PREFIX: Final = "dravirt-"

SOCKET_VOLUME: Final = "hook-sidecar-sockets"
SOCKET_DIR: Final = "/var/run/kubevirt-hooks"
SOCKET_NAME: Final = "dravirt.sock"
"""Unique, since virt-launcher keys sockets by file name. Source: KubeVirt pkg/hooks/manager.go."""
STATE_VOLUME: Final = "dravirt-state"
STATE_DIR: Final = "/var/lib/dravirt"
TOKEN_VOLUME: Final = "dravirt-token"  # noqa: S105 (the name of a volume)
TOKEN_AUDIENCE: Final = DOMAIN  # (an audience is no secret)
TOKEN_DIR: Final = "/var/run/secrets/dravirt.io"  # noqa: S105 (a path)
TOKEN_PATH: Final = f"{TOKEN_DIR}/token"
METADATA_DIR: Final = "/var/run/kubernetes.io/dra-device-attributes"

ALLOCATIONS_PATH: Final = "/v1/allocations"
"""Where the allocation service answers. It keeps answering the sidecars of old releases, which live as their VMs."""
SERVICE_NAME: Final = "dravirt-webhook"
"""The Service of the webhook, in whatever namespace dravirt runs."""
DEFAULT_NAMESPACE: Final = "dravirt-system"

INTENT_ENV: Final = "DRAVIRT_INTENT"

MAX_DEVICES: Final = 32
"""Devices per VM: the most results that one ResourceClaim allocation holds. Source: k8s.io/api/resource/v1."""
MAX_DEVICE_NAME: Final = 50
"""Characters of a device name after expansion: its pod claim name stays below the 63 of a DNS label."""


def placeholder_uuid(index: int) -> str:
    """Return the mdev UUID that stands for the `index`-th device until the sidecar rewrites it."""
    return f"{PLACEHOLDER_UUID_PREFIX}{index:012x}"


PLACEHOLDER_UUID_PREFIX: Final = "00000000-0000-4000-8000-"
