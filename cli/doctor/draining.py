"""VMs with devices that keep a node from being drained.

Source: KubeVirt pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go.
"""

from collections.abc import Iterator

from cli.doctor import remedies
from cli.doctor.asking import Asker, asking
from cli.doctor.codes import Code
from cli.doctor.facts import Objects, RawObject
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import configuration

_BLOCKS = "LiveMigrate"


def check_draining(
    machines: Objects, instances: Objects, patterns: Objects | None, kubevirt: RawObject | None
) -> Iterator[Finding]:
    """Find VMs that ask for devices and may be evicted by migration only."""
    default = configuration(kubevirt).get("evictionStrategy")
    for each in asking(machines, instances, patterns or ()):
        own = each.spec.get("evictionStrategy")
        if (own or default) == _BLOCKS:
            whose = "its" if own else "the cluster's"
            yield Finding(Code.BLOCKS_DRAIN, each.subject, f"{whose} evictionStrategy is {_BLOCKS}", _remedy(each))


def _remedy(asker: Asker) -> str:
    """Return how it stops to block: a VM from its next start on, a VMI by its end, since its spec never changes."""
    if asker.kind != "VirtualMachine":
        return remedies.kubectl("delete", asker.resource, asker.name, namespace=asker.namespace)
    changes = {"spec": {"template": {"spec": {"evictionStrategy": "None"}}}}
    return remedies.merge(asker.resource, asker.name, changes, asker.namespace)
