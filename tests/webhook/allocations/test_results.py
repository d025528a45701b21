"""What was allocated, and where its identity stands."""

import pytest
from support.allocations import NODE, UUIDS, claim, device, result

from dra.attributes import AttributeNames, identity_of
from dra.errors import Failed, Refused
from dra.identity import MdevUUID, PciAddress
from dra.reasons import Reason
from webhook.allocations.pools import PoolName
from webhook.allocations.results import allocated_devices, pools_to_ask, with_attributes

DRIVER = "vgpu.example.com"
POOL = PoolName(DRIVER, NODE)
SHARE, OTHER_SHARE = "5d1f7c3e-0000-4000-8000-000000000001", "5d1f7c3e-0000-4000-8000-000000000002"


def status(name="v0", **more):
    """Return an entry of a claim's status.devices."""
    return {"driver": DRIVER, "pool": NODE, "device": name, **more}


def only(item):
    (found,) = allocated_devices(item)
    return found


def test_requests_keep_their_sub_request_and_their_order():
    item = claim("c", result("v1", request="gpu/large"), result("v0", request="gpu/large"), result("n0", request="nic"))
    assert [(each.request, each.device) for each in allocated_devices(item)] == [
        ("gpu/large", "v1"),
        ("gpu/large", "v0"),
        ("nic", "n0"),
    ]


@pytest.mark.parametrize("item", [claim("c", allocated=False), {"metadata": {"name": "c"}}], ids=["empty", "no status"])
def test_what_is_not_allocated_yet_is_waited_for(item):
    with pytest.raises(Failed) as failed:
        allocated_devices(item)
    assert failed.value.reason is Reason.NOT_ALLOCATED


def test_admin_access_is_refused():
    with pytest.raises(Refused) as refused:
        allocated_devices(claim("c", result("v0"), result("v1", adminAccess=True)))
    assert refused.value.reason is Reason.ADMIN_ACCESS


def test_data_belongs_to_the_device_of_the_same_driver_pool_and_name():
    data = {"mdevUUID": UUIDS[0]}
    assert only(claim("c", result("v0"), devices=[status("v0", data=data)])).data == data
    for other in ({"device": "v1"}, {"pool": "node-8"}, {"driver": "other.example.com"}, {"shareID": SHARE}):
        assert only(claim("c", result("v0"), devices=[status("v0", data=data) | other])).data == {}


def test_shares_of_one_device_have_data_of_their_own():
    shares = {SHARE: UUIDS[0], OTHER_SHARE: UUIDS[1]}
    item = claim(
        "c",
        *[result("v0", request=f"r{n}", shareID=share) for n, share in enumerate(shares)],
        devices=[status("v0", shareID=share, data={"mdevUUID": uuid}) for share, uuid in reversed(shares.items())],
    )
    assert [str(identity_of(each, {})) for each in allocated_devices(item)] == [UUIDS[0], UUIDS[1]]


DATA = {
    "plain": ({"mdevUUID": UUIDS[0]}, MdevUUID(UUIDS[0])),
    "as an attribute": ({"mdevUUID": {"string": UUIDS[0]}}, MdevUUID(UUIDS[0])),
    "with the driver's name": ({f"{DRIVER}/mdevUUID": UUIDS[0]}, MdevUUID(UUIDS[0])),
    "in capitals": ({"mdevUUID": UUIDS[0].upper()}, MdevUUID(UUIDS[0])),
    "an address": ({"pciBusID": "0000:3b:00.4"}, PciAddress(0, 0x3B, 0, 4)),
    "an address by our name": ({"pciAddress": "0000:3b:00.4"}, PciAddress(0, 0x3B, 0, 4)),
    "the standard address": ({"resource.kubernetes.io/pciBusID": "3b:00.4"}, PciAddress(0, 0x3B, 0, 4)),
    "a UUID before an address": ({"pciAddress": "0000:3b:00.0", "mdevUUID": UUIDS[0]}, MdevUUID(UUIDS[0])),
    "something else": ({"config": {"mdevUUID": UUIDS[0]}}, None),
    "a number": ({"mdevUUID": 5}, None),
}


@pytest.mark.parametrize(("data", "identity"), DATA.values(), ids=DATA)
def test_the_identity_in_a_status_is_found_under_the_usual_names(data, identity):
    found = only(claim("c", result("v0"), devices=[status("v0", data=data)]))
    assert identity_of(found, {}) == identity
    assert pools_to_ask([found], {}) == (set() if identity else {POOL})


def test_configured_names_count_in_a_status_too():
    found = only(claim("c", result("v0"), devices=[status("v0", data={"vgpu": UUIDS[0]})]))
    table = {DRIVER: AttributeNames(mdev_uuid=("vgpu",))}
    assert identity_of(found, table) == MdevUUID(UUIDS[0])
    assert pools_to_ask([found], table) == set()


def test_the_status_comes_before_the_slice():
    found = only(claim("c", result("v0"), devices=[status("v0", data={"mdevUUID": UUIDS[0]})]))
    pools = {POOL: {"v0": device("v0", mdevUUID=UUIDS[1])["attributes"]}}
    assert identity_of(with_attributes(found, pools, {}), {}) == MdevUUID(UUIDS[0])


@pytest.mark.parametrize("text", ["not-a-uuid", ""])
def test_a_malformed_identity_in_a_status_is_refused_and_an_empty_one_is_none(text):
    found = only(claim("c", result("v0"), devices=[status("v0", data={"mdevUUID": text})]))
    if not text:
        assert pools_to_ask([found], {}) == {POOL}
        return
    with pytest.raises(Refused) as refused:
        pools_to_ask([found], {})
    assert refused.value.reason is Reason.INVALID_ATTRIBUTE


def test_a_device_that_is_not_in_its_pool_has_no_attributes():
    assert with_attributes(only(claim("c")), {POOL: {}}, {}).attributes == {}


def test_a_share_with_an_identity_of_its_own_is_taken():
    found = only(
        claim("c", result("v0", shareID=SHARE), devices=[status("v0", shareID=SHARE, data={"mdevUUID": UUIDS[0]})])
    )
    assert with_attributes(found, {POOL: {"v0": device("v0", pci="3b:00.0")["attributes"]}}, {}).share_id == SHARE


def test_a_share_that_only_the_slice_knows_is_refused():
    found = only(claim("c", result("v0", shareID=SHARE)))
    with pytest.raises(Refused) as refused:
        with_attributes(found, {POOL: {"v0": device("v0", mdevUUID=UUIDS[0])["attributes"]}}, {})
    assert refused.value.reason is Reason.SHARED_DEVICE
