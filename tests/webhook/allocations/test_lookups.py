"""Warnings at admission about what an annotation names: at once, bounded, and never in the way."""

import asyncio
import time

import pytest
from support.admission import create, launcher_pod, vm, vmi
from support.allocations import claim, resource_slice
from support.apifolder import ApiFolder

from dra.reasons import Reason
from webhook import lookups
from webhook import pod as pods
from webhook import vm as vms
from webhook import vmi as vmis
from webhook.config import Config
from webhook.decision import Decision
from webhook.kubeaccess import find_access
from webhook.kubeclient import KubeClient
from webhook.kubedra import Cluster
from webhook.lookups import AT_ONCE, SECONDS, look_ups

ONE = "[{name: gpu0, resourceClaimTemplateName: a100-1-10c}]"
MINE = "[{name: gpu0, resourceClaimName: mine}]"
DRIVER = "vgpu.example.com"


def template(name="a100-1-10c", *requests, **devices):
    spec = {"devices": {"requests": list(requests), **devices}}
    metadata = {"name": name, "namespace": "vms"}
    return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def selecting(driver, **more):
    return {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}], **more}


@pytest.fixture
def api(tmp_path):
    with ApiFolder(tmp_path) as api:
        api.put(resource_slice(driver=DRIVER))
        yield api


@pytest.fixture
def patient(monkeypatch):
    """Time enough, on a machine that has other things to do, for what is not about time."""
    monkeypatch.setattr(lookups, "SECONDS", 10)


def look_up_timed(api, item, decide=vmis.decide):
    """Return the warnings about an object that is created, beside those of its webhook, and the seconds they took."""
    request = create(item)

    async def run():
        client = KubeClient(find_access(api.kubeconfig))
        try:
            cluster = Cluster(client)
            look_up, decision = look_ups(lambda: cluster), decide(request, Config())
            started = time.monotonic()
            return await look_up(request, decision), time.monotonic() - started
        finally:
            await client.close()

    return asyncio.run(run())


@pytest.fixture
def warned(api, patient):
    """Return the warnings alone, for which there is time."""

    def warned(item, decide=vmis.decide):
        warnings, _ = look_up_timed(api, item, decide)
        return warnings

    return warned


def test_nothing_is_said_where_all_is_there(api, warned):
    api.put(template("a100-1-10c", {"name": "r", "exactly": selecting(DRIVER)}))
    api.put(claim("mine", namespace="vms"))
    assert warned(vmi(ONE)) == ()
    assert warned(vmi(MINE)) == ()
    assert warned(vm(template=ONE), vms.decide) == ()


def test_more_than_some_at_a_time_go_without(api, patient):
    request = create(vmi(ONE))

    async def run():
        client = KubeClient(find_access(api.kubeconfig))
        try:
            cluster = Cluster(client)
            look_up, decision = look_ups(lambda: cluster), vmis.decide(request, Config())
            first = await asyncio.gather(*(look_up(request, decision) for _ in range(AT_ONCE + 3)))
            return [*map(len, first), len(await look_up(request, decision))]
        finally:
            await client.close()

    assert asyncio.run(run()) == [1] * AT_ONCE + [0] * 3 + [1]


def test_a_claim_whose_metadata_would_be_elsewhere_is_named(api, warned):
    item = claim("mine", namespace="vms")
    item["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    api.put(item)
    (line,) = warned(vmi(MINE))
    assert line == (
        "ResourceClaim 'mine': resource.kubernetes.io/pod-claim-name hides its metadata: remove that annotation"
    )
    assert len(line) <= 120


def test_a_template_that_is_not_there_is_named_with_those_like_it(api, warned):
    api.put(template("a100-1-10c-mig"), template("t4-time-sliced"))
    assert warned(vmi(ONE)) == ("there is no ResourceClaimTemplate 'a100-1-10c' here: did you mean a100-1-10c-mig?",)
    assert warned(vmi(MINE)) == ("there is no ResourceClaim 'mine' here",)


def test_without_the_right_to_list_the_name_alone_is_told(api, warned):
    api.put(template("a100-1-10c-mig"))
    api.fail({"path": "resourceclaimtemplates?", "status": 403})
    assert warned(vmi(ONE)) == ("there is no ResourceClaimTemplate 'a100-1-10c' here",)


@pytest.mark.parametrize(
    "item",
    [vm(template=ONE), vm(metadata=ONE), vm(metadata="other", template=ONE)],
    ids=["template", "metadata", "template wins"],
)
def test_of_a_vm_the_value_counts_that_takes_effect(warned, item):
    assert warned(item, vms.decide) == ("there is no ResourceClaimTemplate 'a100-1-10c' here",)


DRIVERS = {
    "in a request": ({"name": "r", "exactly": selecting("gone.example.com")}, {}),
    "flat, as v1beta1 has it": ({"name": "r", **selecting("gone.example.com")}, {}),
    "in parameters": ({"name": "r"}, {"config": [{"opaque": {"driver": "gone.example.com"}}]}),
    "in the class": ({"name": "r", "exactly": {"deviceClassName": "gone"}}, {}),
}


@pytest.mark.parametrize(("request_", "more"), DRIVERS.values(), ids=DRIVERS)
def test_a_driver_that_publishes_nothing_is_named(api, warned, request_, more):
    api.put({"kind": "DeviceClass", "metadata": {"name": "gone"}, "spec": selecting("gone.example.com")})
    api.put(template("a100-1-10c", request_, **more))
    expected = "ResourceClaimTemplate 'a100-1-10c': driver gone.example.com publishes no device"
    assert warned(vmi(ONE)) == (expected,)
    api.put(resource_slice(driver="gone.example.com"))
    assert warned(vmi(ONE)) == ()


def test_of_alternatives_any_will_do(api, warned):
    api.put(template("a100-1-10c", {"name": "r", "firstAvailable": [selecting("gone.example.com", name="a")]}))
    assert warned(vmi(ONE)) == ()


def test_without_the_right_to_read_classes_nothing_is_said_of_them(api, warned):
    api.fail({"path": "deviceclasses", "status": 403})
    api.put(template("a100-1-10c", {"name": "r", "exactly": {"deviceClassName": "gone"}}))
    assert warned(vmi(ONE)) == ()


@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 403}, {"close": True}, {"delay": 2}], ids=["500", "403", "closed", "slow"]
)
def test_an_api_server_that_fails_is_not_noticed(api, fault, monkeypatch):
    monkeypatch.setattr(lookups, "SECONDS", SECONDS)
    api.fail({"path": "", **fault})
    warnings, seconds = look_up_timed(api, vmi(ONE))
    assert warnings == ()
    assert seconds < 1.2


def test_what_was_found_in_time_is_told(api, warned, monkeypatch):
    monkeypatch.setattr(lookups, "SECONDS", 2)
    api.fail({"path": "resourceclaims/mine", "delay": 8})
    both = "[{name: a, resourceClaimTemplateName: t1}, {name: b, resourceClaimName: mine}]"
    assert warned(vmi(both)) == ("there is no ResourceClaimTemplate 't1' here",)


def test_a_long_annotation_costs_a_few_questions(api, warned):
    entries = [f"{{name: g{n}, resourceClaimTemplateName: t{n}}}" for n in range(32)]
    assert len(warned(vmi(f"[{', '.join(entries)}]"))) == 4
    assert len(api.asked) < 20


def nothing():
    return None


def refuse_to_be_asked():
    raise AssertionError


@pytest.mark.parametrize(
    ("item", "decide"),
    [
        pytest.param(vmi(None), vmis.decide, id="not opted in"),
        pytest.param(vmi("[]"), vmis.decide, id="denied"),
        pytest.param(vm(), vms.decide, id="VM, not opted in"),
    ],
)
def test_what_asks_for_nothing_is_not_looked_up(item, decide):
    request = create(item)
    assert asyncio.run(look_ups(refuse_to_be_asked)(request, decide(request, Config()))) == ()


def test_a_launcher_pod_never_waits_for_the_api_server():
    request = create(launcher_pod())
    decision = pods.decide(request, Config())
    assert decision.reason is Reason.INJECTED
    assert asyncio.run(look_ups(refuse_to_be_asked)(request, decision)) == ()


def test_switched_off_nothing_is_looked_up():
    assert asyncio.run(look_ups(nothing)(create(vmi(ONE)), Decision(Reason.ACCEPTED))) == ()


def test_a_defect_of_a_look_up_denies_nothing(caplog):
    class Broken:
        async def template(self, *_):
            raise ZeroDivisionError

    assert asyncio.run(look_ups(Broken)(create(vmi(ONE)), Decision(Reason.ACCEPTED))) == ()
    assert "ZeroDivisionError" in caplog.text
