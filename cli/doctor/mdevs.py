"""virt-handler's habit of deleting mediated devices that it was not told to keep.

Source: KubeVirt pkg/virt-handler/device-manager/mediated_devices_types.go, called with each heartbeat.
"""

from collections.abc import Iterator

from cli.doctor.codes import Code
from cli.doctor.drivers import published
from cli.doctor.facts import Objects, RawObject, Settings
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import Owner, configuration, feature_gates, kubevirt_version, owner_of, parse, subject
from dra.identity import MdevUUID
from webhook.raw import mapping, mappings

_GATE = "DisableMDEVConfiguration"
_CAN_BE_DISABLED = (1, 8)
"""The KubeVirt from which `mediatedDevicesConfiguration.enabled` is there."""
_PERMITTED = ("permittedHostDevices", "mediatedDevices")


def check_mdevs(
    kubevirt: RawObject | None, slices: Objects | None, settings: Settings | None, hyperconverged: RawObject | None
) -> Iterator[Finding]:
    """Find a KubeVirt that deletes mediated devices: an error where a driver publishes some, else a warning."""
    if kubevirt is None or _leaves_all(kubevirt):
        return
    devices = [each for each in published(slices or (), settings) if isinstance(each.identity, MdevUUID)]
    kept = _kept(kubevirt)
    types = sorted({each.profile for each in devices if each.profile} - kept)
    if devices and not types and all(each.profile for each in devices):
        return
    if not devices and kept:
        return
    owner = owner_of(kubevirt, hyperconverged)
    what = "nothing keeps virt-handler from deleting mediated devices"
    if devices:
        drivers = ", ".join(sorted({each.driver for each in devices}))
        what += f", and {drivers} publishes some{_of_types(types)}"
    code = Code.MDEV_DELETION if devices else Code.MDEV_DELETION_POSSIBLE
    yield Finding(code, subject(kubevirt), what, _remedy(owner, kubevirt, types))


def _leaves_all(kubevirt: RawObject) -> bool:
    enabled = mapping(configuration(kubevirt), "mediatedDevicesConfiguration").get("enabled")
    return enabled is False or _GATE in feature_gates(kubevirt)


def _kept(kubevirt: RawObject) -> set[str]:
    """Return the names of the types that virt-handler leaves to somebody else."""
    return {
        str(each.get("mdevNameSelector"))
        for each in mappings(configuration(kubevirt), *_PERMITTED)
        if each.get("externalResourceProvider") is True
    }


def _of_types(types: list[str]) -> str:
    return f" of {', '.join(types)}" if types else ""


def _remedy(owner: Owner, kubevirt: RawObject, types: list[str]) -> str:
    """Return how virt-handler is made to leave them: each type by name where KubeVirt makes others itself."""
    makes = mapping(configuration(kubevirt), "mediatedDevicesConfiguration")
    makes_some = makes.get("mediatedDeviceTypes") or makes.get("nodeMediatedDeviceTypes")
    number = parse(kubevirt_version(kubevirt))
    if types and (makes_some or (number and number < _CAN_BE_DISABLED)):
        return " && ".join(owner.command(each) for each in _entries(owner, types))
    if number and number < _CAN_BE_DISABLED:
        return owner.command(_gate(owner))
    return owner.command(owner.put(("mediatedDevicesConfiguration", "enabled"), value=False))


def _entries(owner: Owner, types: list[str]) -> Iterator[list[dict[str, object]]]:
    """Yield a change per type. The first may make the list, so that all others append to it."""
    for index, name in enumerate(types):
        entry = {
            "mdevNameSelector": name,
            "resourceName": f"dravirt.io/{'-'.join(name.split())}",
            "externalResourceProvider": True,
        }
        if index:
            yield [{"op": "add", "path": "/" + "/".join((*owner.root, *_PERMITTED, "-")), "value": entry}]
        else:
            yield owner.put(_PERMITTED, entry, append=True)


def _gate(owner: Owner) -> list[dict[str, object]]:
    if owner.is_kubevirt:
        return owner.put(("developerConfiguration", "featureGates"), _GATE, append=True)
    return owner.put(("featureGates", "disableMDevConfiguration"), value=True)
