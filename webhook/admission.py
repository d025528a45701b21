"""The webhooks by path: which resource each is about, and what decides.

`dravirt render` and the HTTP endpoint go through the same table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webhook import pod, validation, vm, vmi
from webhook.authorities import only_with_authority
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision


@dataclass(frozen=True, slots=True)
class Handler:
    """One webhook: the API group and kind that it is registered for, and its decision."""

    group: str
    kind: str
    decide: Callable[[AdmissionRequest, Config], Decision]


HANDLERS: Mapping[str, Handler] = {
    "/mutate/vm": Handler("kubevirt.io", "VirtualMachine", vm.decide),
    "/mutate/vmi": Handler("kubevirt.io", "VirtualMachineInstance", vmi.decide),
    "/mutate/pod": Handler("", "Pod", only_with_authority(pod.decide)),
    "/validate/pod": Handler("", "Pod", validation.decide),
}
