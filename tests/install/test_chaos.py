"""What others do to an installation's certificates while it runs: it heals by itself, and serves meanwhile."""

import base64
import datetime as dt

import pytest
import yaml
from cluster import machines
from cluster.api import denial
from cluster.loops import Loop
from cluster.process import until

from certs.certificates import issue, new_authority, service_names, write_certificates, write_key
from certs.material import Material, read_material, write_material
from install.installation import KINDS, REGISTRATION
from install.rotations import QUICK, look, settled

pytestmark = pytest.mark.install

HOUR = dt.timedelta(hours=1)


@pytest.fixture(scope="module", autouse=True)
def short_waits(installation):
    """What is made anew is trusted within seconds."""
    if installation.arguments != QUICK:
        installation.arguments = QUICK
        installation.apply()
        installation.wait_until_ready()


def material_of(installation):
    data = {name: base64.b64decode(value) for name, value in installation.secret().items()}
    return read_material(data)[0]


def names(installation):
    return service_names("dravirt-webhook", installation.namespace)


def write(installation, data):
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    installation.api.merge(installation.secret_object(), {"data": encoded})


def delete(installation):
    installation.kubectl("-n", installation.namespace, "delete", "secret", "dravirt-webhook-tls")


def empty(installation):
    installation.api.merge(installation.secret_object(), {"data": None})


def tear(installation):
    """A certificate beside the key of another."""
    there = material_of(installation)
    other = issue(there.authority, names(installation), dt.datetime.now(dt.UTC), HOUR)
    write(installation, {"tls.crt": write_certificates([other.certificate])})


def expire_certificate(installation):
    there = material_of(installation)
    old = issue(there.authority, names(installation), dt.datetime.now(dt.UTC) - 2 * HOUR, HOUR)
    write(installation, {"tls.crt": write_certificates([old.certificate]), "tls.key": write_key(old.key)})


def expire_authority(installation):
    """TL-07: the certificate would still be good, if its authority were."""
    now = dt.datetime.now(dt.UTC)
    authority = new_authority(now - 2 * HOUR, HOUR)
    leaf = issue(new_authority(now - 2 * HOUR, 12 * HOUR), names(installation), now, HOUR)
    write(
        installation, write_material(Material((authority.certificate,), authority.key, (leaf.certificate,), leaf.key))
    )


def is_well(installation):
    fault = material_of(installation).fault(names(installation)[0], dt.datetime.now(dt.UTC))
    return not fault


def is_long_lived(installation):
    """True where no authority of the Secret ends soon: it would leave the caBundles by itself."""
    soon = dt.datetime.now(dt.UTC) + HOUR
    return all(each.not_valid_after_utc > soon for each in material_of(installation).bundle)


@pytest.mark.parametrize(
    "harm", [delete, empty, tear, expire_certificate, expire_authority], ids=lambda harm: harm.__name__
)
def test_a_secret_that_is_harmed_is_mended_and_costs_no_call(installation, load, harm):
    before = look(installation)

    with load() as running:
        harm(installation)
        until(lambda: look(installation) != before and is_well(installation), seconds=60, what="another certificate")
        settled(installation)
        running.go_on()

    assert running.failures == []
    installation.wait_until_ready()


def test_tl07_replicas_that_start_with_an_expired_authority_make_another(installation):
    installation.down()
    expire_authority(installation)

    installation.up()

    assert is_well(installation)
    settled(installation)


def test_tl13_manifests_that_are_applied_again_leave_the_ca_bundles_alone(installation, load):
    until(lambda: is_long_lived(installation), seconds=120, what="the end of the authorities that lived for seconds")
    settled(installation)
    before = installation.bundles()
    installation.labels = {"example.com/release": "2"}

    with load() as running:
        installation.apply()
        installation.kubectl("apply", "--server-side", "--force-conflicts", "-k", installation.folder)
        after = installation.bundles()
        running.go_on()

    assert all(before)
    assert before == after
    assert running.failures == []
    installation.wait_until_ready()


def test_tl13_ca_bundles_that_manifests_have_wiped_are_back_without_a_restart(installation):
    pods = [each["metadata"]["uid"] for each in installation.wait_until_ready()]
    rendered = yaml.safe_load_all(installation.kubectl("kustomize", installation.folder))
    webhooks = [each for each in rendered if each["kind"] in KINDS]

    installation.kubectl("replace", "-f", "-", given=yaml.safe_dump_all(webhooks))

    assert len(webhooks) == 2
    until(lambda: settled_now(installation), seconds=60, what="the bundle in every webhook")
    assert [each["metadata"]["uid"] for each in installation.wait_until_ready()] == pods


def settled_now(installation):
    return set(installation.bundles()) == {installation.secret()["ca.crt"]}


def test_somebody_who_writes_other_ca_bundles_is_written_over_until_he_stops(installation):
    pods = [each["metadata"]["uid"] for each in installation.wait_until_ready()]
    other = new_authority(dt.datetime.now(dt.UTC), HOUR).certificate
    bundle = base64.b64encode(write_certificates([other])).decode()
    seen = []

    def quarrel():
        for kind in KINDS:
            item = installation.api.get(REGISTRATION, kind, "dravirt")
            hooks = item["webhooks"]
            seen.extend(hook["clientConfig"].get("caBundle") for hook in hooks)
            for hook in hooks:
                hook["clientConfig"]["caBundle"] = bundle
            installation.api.merge({"apiVersion": REGISTRATION, "kind": kind, **item}, {"webhooks": hooks})

    with Loop(quarrel):
        until(lambda: len([each for each in seen if each != bundle]) > 10, seconds=60, what="dravirt writing as well")

    until(lambda: settled_now(installation), seconds=60, what="the bundle in every webhook")
    assert [each["metadata"]["uid"] for each in installation.wait_until_ready()] == pods


def test_a_webhook_configuration_that_is_gone_lets_no_vm_start_without_its_device(installation, api, namespace):
    mutating, _ = KINDS
    api.delete({"apiVersion": REGISTRATION, "kind": mutating, "metadata": {"name": "dravirt"}})
    try:
        until(
            lambda: "has no placeholder" in denial(api, machines.vmi(namespace, asks="vgpu")),
            seconds=30,
            what="the policy's refusal",
        )
    finally:
        installation.apply()

    settled(installation)
    until(lambda: not denial(api, machines.vmi(namespace, asks="vgpu")), seconds=30, what="the webhook asked again")
