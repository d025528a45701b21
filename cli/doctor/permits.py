"""KubeVirt's permittedHostDevices: where they are set, the placeholder must be among them.

Source: KubeVirt pkg/virt-controller/services/renderresources.go, validatePermittedHostDevices.
"""

from collections.abc import Iterator

from cli.doctor.codes import Code
from cli.doctor.facts import RawObject, Settings
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import Owner, configuration, owner_of, subject
from dra.contract import PLACEHOLDER_RESOURCE
from dra.intent import Mode
from webhook.raw import mappings

_NO_DEVICE = "0000:0000"
_PATH = ("permittedHostDevices", "pciHostDevices")


def check_permit(
    kubevirt: RawObject | None, settings: Settings | None, hyperconverged: RawObject | None
) -> Iterator[Finding]:
    """Find a placeholder that is not permitted, or is in the wrong way."""
    if kubevirt is None or (settings and settings.config.mode is Mode.APPEND):
        return
    if not isinstance(configuration(kubevirt).get(_PATH[0]), dict):
        return
    permitted = [each for each in mappings(configuration(kubevirt), *_PATH) if _is_ours(each)]
    owner = owner_of(kubevirt, hyperconverged)
    if any(_is_ours(each) for each in mappings(configuration(kubevirt), _PATH[0], "mediatedDevices")):
        what = f"permittedHostDevices lists {PLACEHOLDER_RESOURCE} under mediatedDevices"
        yield Finding(Code.PERMIT_UNDER_MEDIATED, subject(kubevirt), what, _removal(owner))
    if not permitted:
        what = f"permittedHostDevices is set, and {PLACEHOLDER_RESOURCE} is not under pciHostDevices"
        entry = {
            owner.pci_selector: _NO_DEVICE,
            "resourceName": PLACEHOLDER_RESOURCE,
            "externalResourceProvider": True,
        }
        operations = owner.put(_PATH, entry, append=True)
        yield Finding(Code.PERMIT_MISSING, subject(kubevirt), what, owner.command(operations), owner.fix(operations))
    elif not any(each.get("externalResourceProvider") is True for each in permitted):
        what = f"the entry of {PLACEHOLDER_RESOURCE} has no externalResourceProvider: true"
        entries = mappings(owner.item or {}, *owner.root, *_PATH)
        index = next((index for index, each in enumerate(entries) if _is_ours(each)), 0)
        path = "/" + "/".join((*owner.root, *_PATH, str(index)))
        operations = [
            {"op": "test", "path": f"{path}/resourceName", "value": PLACEHOLDER_RESOURCE},
            {"op": "add", "path": f"{path}/externalResourceProvider", "value": True},
        ]
        yield Finding(
            Code.PERMIT_NOT_EXTERNAL, subject(kubevirt), what, owner.command(operations), owner.fix(operations)
        )


def _is_ours(entry: RawObject) -> bool:
    # (`disabled` is HyperConverged's way to take an entry out of its defaults)
    return entry.get("resourceName") == PLACEHOLDER_RESOURCE and not entry.get("disabled")


def _removal(owner: Owner) -> str:
    path = (*owner.root, _PATH[0], "mediatedDevices")
    entries = mappings(owner.item or {}, *path)
    index = next((index for index, each in enumerate(entries) if _is_ours(each)), 0)
    where = "/" + "/".join((*path, str(index)))
    return owner.command(
        [
            {"op": "test", "path": f"{where}/resourceName", "value": PLACEHOLDER_RESOURCE},
            {"op": "remove", "path": where},
        ]
    )
