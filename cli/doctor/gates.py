"""KubeVirt's feature gates that change what happens around dravirt. None is needed, and none is in the way by itself.

Source: KubeVirt pkg/virt-config/featuregate/active.go.
"""

from collections.abc import Iterator

from cli.doctor.codes import Code
from cli.doctor.facts import RawObject
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import feature_gates, subject

GATES = {
    "GPUsWithDRA": "KubeVirt attaches GPUs with a claimName itself; a VM cannot have both those and dravirt's",
    "HostDevicesWithDRA": "KubeVirt attaches hostDevices with a claimName itself, beside dravirt's devices",
    "IOMMUFD": "launcher pods ask for devices.kubevirt.io/iommufd; dravirt's devices go by /dev/vfio as before",
    "PCINUMAAwareTopology": "KubeVirt places PCI devices by NUMA node before dravirt names them: its devices are not",
    "Plugins": "with a Plugin object KubeVirt writes each domain anew after dravirt (kubevirt#18861)",
    "ReservedOverheadMemlock": "VMs may raise locked memory by reservedOverhead; only append mode needs it",
    "Sidecar": "VM owners may run hook sidecars of their own; they change the domain in the order of their names",
    "VGPULiveMigration": "VMs with one vGPU under mediatedDevices are migratable: the placeholder must not be there",
}


def check_gates(kubevirt: RawObject | None) -> Iterator[Finding]:
    """Tell which of the gates are on."""
    for gate in feature_gates(kubevirt or {}):
        if gate in GATES:
            yield Finding(Code.FEATURE_GATE, subject(kubevirt or {}), f"{gate} is on: {GATES[gate]}")
