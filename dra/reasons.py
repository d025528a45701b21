"""The stable reason codes, each with the sentence a person reads.

One code per cause, the same in a denial, a log line, a metric label and an event, so that an on-call engineer can
search for it. A code never changes its meaning; texts may.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why something was done, left alone or refused."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> "Reason":  # noqa: PYI034 (Self cannot name an enum's member type)
        """Make a member whose value is `code` and which carries its sentence."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    # What the webhooks do and why.
    NOT_OPTED_IN = "not_opted_in", "the object carries no dravirt.io/devices annotation"
    NOT_A_LAUNCHER = "not_a_launcher", "the pod is not a virt-launcher pod of a VirtualMachineInstance"
    UNCHANGED = "unchanged", "nothing in the annotation changed"
    BEING_DELETED = "being_deleted", "the object is being deleted"
    ACCEPTED = "accepted", "the annotation is valid and stands where it takes effect"
    COPIED = "copied", "the VM's annotation was copied to its template"
    WITHDRAWN = "withdrawn", "the copied annotation was removed from the template"
    PLACEHOLDERS_ADDED = "placeholders_added", "placeholder GPUs were added to the VMI"
    INJECTED = "injected", "claims and hook sidecar were injected"
    ALREADY_INJECTED = "already_injected", "the pod already carries everything"
    PROVISIONING = "provisioning", "the claims steer an ephemeral provisioning pod, nothing else is added"
    SKIPPED = "skipped", "a migration target of a VMI that started without its devices is left alone"

    # What the webhooks refuse.
    INVALID_ANNOTATION = "invalid_annotation", "the dravirt.io/devices annotation is wrong"
    NAME_CONFLICT = "name_conflict", "a device has the name of something else"
    NATIVE_CLAIM = "native_claim", "KubeVirt refuses GPUs with claimName beside placeholders"
    CLAIM_TWICE = "claim_twice", "one ResourceClaim is named by the VM itself and by the annotation"
    PLACEHOLDER_MISMATCH = "placeholder_mismatch", "the placeholders do not match the devices asked for"
    UNTRUSTED_CREATOR = "untrusted_creator", "the launcher pod was not created by KubeVirt's controller"
    AUTHORITY_UNKNOWN = "authority_unknown", "the authorities that a sidecar must trust are not known yet"
    NO_COMPUTE = "no_compute", "the launcher pod has no container named compute"
    NO_HOOK_FLAG = "no_hook_flag", "compute has no --hook-sidecars argument that holds a number"
    CLAIMS_DROPPED = "claims_dropped", "the API server dropped the pod's resource claims"
    SIDECAR_MISSING = "sidecar_missing", "the pod is marked as injected but lacks the hook sidecar"
    NOT_INJECTED = "not_injected", "the opted-in launcher pod was not injected"
    INVALID_REVIEW = "invalid_review", "the request is no AdmissionReview that its path answers"
    INTERNAL_ERROR = "internal_error", "a defect of dravirt: its log says more"

    DENIED = "denied", "a webhook denied the object"

    # What keeps the sidecar from attaching a device.
    INVALID_INTENT = "invalid_intent", "the sidecar's intent is broken"
    UNRESOLVED = "unresolved", "no source knows the allocated device"
    INVALID_METADATA = "invalid_metadata", "the driver's metadata file is broken"
    UNKNOWN_REQUEST = "unknown_request", "the claim has no such request"
    WRONG_COUNT = "wrong_count", "the request yields another number of devices than asked for"
    NO_IDENTITY = "no_identity", "no attribute holds an mdev UUID or a PCI address"
    INVALID_ATTRIBUTE = "invalid_attribute", "an attribute of the device is malformed"
    AMBIGUOUS_IDENTITY = "ambiguous_identity", "two attributes of a device contradict each other"
    AMBIGUOUS_ENVIRONMENT = "ambiguous_environment", "the environment does not tell which device is whose"
    INVALID_ENVIRONMENT = "invalid_environment", "a variable of the driver holds no mdev UUID or PCI address"
    ADMIN_ACCESS = "admin_access", "the claim has admin access: the device may be in use by another workload"
    DUPLICATE_DEVICE = "duplicate_device", "two entries resolve to the same device"
    MDEV_MISSING = "mdev_missing", "the mediated device is not on this node"
    PCI_MISSING = "pci_missing", "the PCI device is not on this node"
    WRONG_DRIVER = "wrong_driver", "the PCI device is not bound to a VFIO driver"
    PHYSICAL_FUNCTION = "physical_function", "a physical function was given where a virtual one is expected"
    VGPU_TYPE_UNSET = "vgpu_type_unset", "the virtual function has no vGPU type"
    NO_IOMMU_GROUP = "no_iommu_group", "the device has no IOMMU group"
    GROUP_NOT_VIABLE = "group_not_viable", "another device of the IOMMU group is not bound to a VFIO driver"
    VFIO_MISSING = "vfio_missing", "a VFIO device node is missing in the pod"
    UNSUPPORTED_MODEL = "unsupported_model", "the mediated device is of a kind that is no GPU"
    BROKEN_SYSFS = "broken_sysfs", "a sysfs entry of the device cannot be read"
    DISPLAY_UNSUPPORTED = "display_unsupported", "a display was asked for on a device that has none"
    INVALID_DOMAIN = "invalid_domain", "the domain XML cannot be read"
    INVALID_VMI = "invalid_vmi", "the VMI that came with the domain cannot be read"
    INVALID_DEVICES = "invalid_devices", "the list of devices cannot be read"
    NO_PLACEHOLDER = "no_placeholder", "the domain has no host device to rewrite"
    PLACEHOLDER_LEFT = "placeholder_left", "a placeholder would reach libvirt"
    DEVICE_TAKEN = "device_taken", "another host device of the domain has the same device"

    # What the allocation service answers, and what keeps the sidecar from an answer.
    INVALID_REQUEST = "invalid_request", "the request is not one that the allocation service answers"
    INVALID_TOKEN = "invalid_token", "the token is not that of a pod for the audience dravirt.io"
    POD_MISMATCH = "pod_mismatch", "the pod of the token is not there, or another has its name"
    CLAIM_MISSING = "claim_missing", "a claim of the pod is not there, or is another pod's"
    NOT_ALLOCATED = "not_allocated", "no device is allocated for the claim yet"
    NOT_RESERVED = "not_reserved", "the claim is not reserved for the pod"
    CLAIM_HELD = "claim_held", "another pod has the claim and came first"
    SHARED_DEVICE = "shared_device", "a share of a device has no identity of its own"
    INCOMPLETE_POOL = "incomplete_pool", "the driver is publishing the pool of the device anew"
    INVALID_POOL = "invalid_pool", "the driver published two devices under one name"
    BUSY = "busy", "more is asked than can be answered at a time"
    API_UNAVAILABLE = "api_unavailable", "the API server does not answer"
    SERVICE_UNREACHABLE = "service_unreachable", "the allocation service cannot be reached"
    INVALID_ANSWER = "invalid_answer", "the allocation service answered what cannot be read"

    # What a retry may mend.
    INVALID_CONFIGURATION = "invalid_configuration", "the configuration file is wrong"
    INVALID_STATE = "invalid_state", "the sidecar's state file is broken or another's"
    UNREADABLE = "unreadable", "a file cannot be read"
    UNWRITABLE = "unwritable", "a file cannot be written"
    INVALID_CERTIFICATE = "invalid_certificate", "certificate, key and authority cannot be used together"
    UNTRUSTED_CERTIFICATE = "untrusted_certificate", "a webhook is registered without the authority of its certificate"
    NOT_SELF_MANAGED = "not_self_managed", "the Secret does not hold the key of an authority of dravirt's"
    CONFLICT = "conflict", "somebody else changed the object at the same time"
    NOT_SERVING = "not_serving", "a server does not answer as it should"
    CHECK_FAILED = "check_failed", "what came back is not what it must be"
