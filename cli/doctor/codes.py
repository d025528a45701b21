"""The codes of findings, each with its severity and the sentence that says why it matters.

One code per cause, stable: scripts and the on-call page go by it. `docs/doctor.md` has a row for each.
"""

from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is. Only an error decides the exit code."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    UNKNOWN = "unknown"


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


class Code(StrEnum):
    """What was found."""

    severity: Severity
    why: str

    def __new__(cls, code: str, severity: Severity, why: str) -> "Code":  # noqa: PYI034 (Self cannot name an enum's member)
        """Make a member whose value is `code`, with its severity and why it matters."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.severity, member.why = severity, why
        return member

    # Kubernetes and KubeVirt.
    KUBERNETES_TOO_OLD = "kubernetes_too_old", _ERROR, "DRA in a form that dravirt reads is there from 1.32 on"
    DRA_NOT_SERVED = "dra_not_served", _ERROR, "claims cannot be made, so no VM gets a device"
    DRA_OFF = "dra_off", _ERROR, "every pod loses its claims without a word, so dravirt refuses the pods of its VMs"
    NO_NATIVE_SIDECARS = "no_native_sidecars", _ERROR, "the hook sidecar would end before the VM asks it"
    KUBEVIRT_MISSING = "kubevirt_missing", _ERROR, "there is nothing to give devices to"
    KUBEVIRT_TOO_OLD = "kubevirt_too_old", _ERROR, "dravirt is proven with KubeVirt 1.5 and later"
    KUBEVIRT_NAMESPACE = (
        "kubevirt_namespace",
        _ERROR,
        "dravirt takes launcher pods from KubeVirt's controller in the configured namespace only",
    )
    PERMIT_MISSING = "permit_missing", _ERROR, "KubeVirt makes no pod for a VM with a device that it does not permit"
    PERMIT_NOT_EXTERNAL = (
        "permit_not_external",
        _WARNING,
        "KubeVirt may start a device plugin for the placeholder, a resource that no node should have",
    )
    PERMIT_UNDER_MEDIATED = (
        "permit_under_mediated",
        _WARNING,
        "KubeVirt 1.9 with VGPULiveMigration takes the VMs for migratable, and their migrations fail",
    )
    MDEV_DELETION = (
        "mdev_deletion",
        _ERROR,
        "virt-handler deletes mediated devices that it was not told to keep, about once a minute",
    )
    MDEV_DELETION_POSSIBLE = (
        "mdev_deletion_possible",
        _WARNING,
        "if the driver hands out mediated devices, virt-handler deletes them about once a minute",
    )
    FEATURE_GATE = "feature_gate", _INFO, "it changes what KubeVirt does around dravirt"

    # dravirt itself.
    WEBHOOKS_MISSING = "webhooks_missing", _ERROR, "VMs that ask for devices start without them"
    WEBHOOK_MISSING = "webhook_missing", _ERROR, "one step is left out: VMs start without devices or not at all"
    FAILURE_POLICY = "failure_policy", _ERROR, "while dravirt is away, VMs start without the devices they ask for"
    WEBHOOK_ORDER = "webhook_order", _WARNING, "KubeVirt's defaults are set before the placeholder is there"
    CERTIFICATE = "certificate", _ERROR, "API servers do not call the webhook: no VM with devices starts"
    CA_BUNDLE = "ca_bundle", _ERROR, "API servers do not call the webhook: no VM with devices starts"
    WEBHOOK_UNREACHABLE = "webhook_unreachable", _ERROR, "no VM with devices can be created or started"
    WEBHOOK_NOT_ASKED = "webhook_not_asked", _ERROR, "VMs that ask for devices start without them"
    NO_ENDPOINTS = "no_endpoints", _ERROR, "neither API servers nor sidecars reach dravirt"
    NOT_READY = "not_ready", _ERROR, "no VM with devices can be created or started"
    FEW_REPLICAS = "few_replicas", _WARNING, "the next failure or drain stops new starts of VMs with devices"
    NO_DISRUPTION_BUDGET = "no_disruption_budget", _WARNING, "a drain may take all replicas at once"
    SIDECAR_VERSION = "sidecar_version", _WARNING, "webhook and sidecar are tested in one version"
    VERSION_UNTOLD = "version_untold", _INFO, "webhook and sidecar should be of one version"
    CONFIGURATION = "configuration", _ERROR, "dravirt goes on with the last good configuration, or does not start"
    RIGHTS_MISSING = "rights_missing", _ERROR, "sidecars that ask dravirt for their devices get no answer"
    CERTIFICATE_RIGHTS = "certificate_rights", _ERROR, "the certificate cannot be renewed or made trusted"
    SERVICE_OFF = (
        "service_off",
        _INFO,
        "VMs find their devices only if the driver writes metadata or sets variables, which is not seen from outside",
    )

    # Drivers and VMs.
    NO_DRIVER = "no_driver", _ERROR, "there is no device to allocate: launcher pods stay Pending"
    NO_DEVICE_CLASS = "no_device_class", _WARNING, "a claim has to name one to get a device of the driver"
    POOL_INCOMPLETE = "pool_incomplete", _WARNING, "devices of the pool are not allocated until all slices are there"
    IDENTITY_ELSEWHERE = "identity_elsewhere", _WARNING, "dravirt does not look there for the device"
    IDENTITY_UNSEEN = (
        "identity_unseen",
        _INFO,
        "which device it is must come from the driver's metadata, variables or the claim's status",
    )
    BLOCKS_DRAIN = "blocks_drain", _WARNING, "a VM with a GPU does not migrate: a drain waits until somebody stops it"
    STARTS_WITHOUT_DEVICE = "starts_without_device", _ERROR, "without dravirt nobody acts on the annotation"
    NEVER_STARTS = "never_starts", _ERROR, "without dravirt its pod waits for the resource dravirt.io/gpu for ever"

    UNSEEN = "unseen", Severity.UNKNOWN, "what could not be seen could not be judged"
