"""dravirt with its allocation service, and drivers that the pod hears nothing from."""

import pytest

from cluster import fleet, sandbox
from cluster.allocations.site import Site
from cluster.controlplane import WEBHOOK
from cluster.dravirt import NAMESPACE, SERVICE, allocation_rights
from cluster.images import SIDECAR_IMAGE

if sandbox.current() is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="package")
def service(stack, dravirt):
    """dravirt with its allocation service on, at the Service's address, with the rights that `deploy/` gives it."""
    for each in allocation_rights():
        stack.api.apply(each)
    address = stack.api.get("v1", "Service", SERVICE, NAMESPACE)["spec"]["clusterIP"]
    before = dravirt.config.read_text(), list(dravirt.command)
    authority = dravirt.config.with_name("authority.crt")
    authority.write_text(stack.control_plane.authority.pem)
    keys = {"caFile": str(authority), "url": f"https://{address}:443"}
    dravirt.down()
    dravirt.configure({"sidecar": {"image": SIDECAR_IMAGE}, "allocationService": keys})
    dravirt.command.append(f"--kubeconfig={stack.control_plane.kubeconfig(WEBHOOK)}")
    dravirt.up()
    yield dravirt
    dravirt.down()
    dravirt.config.write_text(before[0])
    dravirt.command[:] = before[1]
    dravirt.up()


@pytest.fixture
def site(stack, node, drivers, service, namespace):
    """The test's namespace."""
    return Site(stack, service, namespace)


@pytest.fixture
def silent(drivers):
    """Drivers that write no metadata, and of mediated devices the UUID into the claim's status alone."""
    changes = {
        each.name: {"attributes": {}, "status": {"mdevUUID": each.identity} if each.is_mdev else None}
        for each in fleet.fleet()
    }
    own = {each.name for each in fleet.fleet() if each.driver == fleet.DRIVER}
    first = {name: change for name, change in changes.items() if name in own}
    other = {name: change for name, change in changes.items() if name not in own}
    with (
        drivers.changed(metadata=[], devices=first),
        drivers.changed(fleet.OTHER_DRIVER, metadata=[], devices=other),
    ):
        yield
