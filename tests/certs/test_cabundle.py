"""The caBundles of webhook configurations: patched where they differ, in the version that was read and no other."""

import base64

import pytest
from support.authorities import material
from support.simulatedcluster import configuration, patched

from certs.cabundle import authorities, bundles, mend
from certs.certificates import write_certificates
from certs.store import Conflict

KIND = "MutatingWebhookConfiguration"
NAMES = ("vm.dravirt.io", "pod.dravirt.io")
BUNDLE = write_certificates(material().bundle)


@pytest.mark.parametrize("before", [None, b"", b"another", BUNDLE + b"\n"])
def test_every_webhook_is_given_the_bundle(before):
    item = configuration(KIND, NAMES, before)
    after = patched(item, mend(item, BUNDLE), "2")
    assert bundles(after) == dict.fromkeys(NAMES, BUNDLE)


def test_nothing_is_patched_where_all_have_it():
    assert mend(configuration(KIND, NAMES, BUNDLE), BUNDLE) == []


def test_only_the_one_that_differs_is_patched():
    item = configuration(KIND, NAMES, BUNDLE)
    item["webhooks"][1]["clientConfig"]["caBundle"] = ""
    assert [each["path"] for each in mend(item, BUNDLE)] == [
        "/metadata/resourceVersion",
        "/webhooks/1/name",
        "/webhooks/1/clientConfig/caBundle",
    ]


def test_another_version_is_not_patched():
    item = configuration(KIND, NAMES)
    operations = mend(item, BUNDLE)
    item["metadata"]["resourceVersion"] = "7"
    with pytest.raises(Conflict):
        patched(item, operations, "8")


def test_entries_that_have_moved_are_not_patched():
    item = configuration(KIND, NAMES)
    operations = mend(item, BUNDLE)
    item["webhooks"].reverse()
    with pytest.raises(Conflict):
        patched(item, operations, "8")


@pytest.mark.parametrize("hooks", [None, []])
def test_a_configuration_without_webhooks_is_left_alone(hooks):
    item = {**configuration(KIND, ()), "webhooks": hooks}
    assert (bundles(item), mend(item, BUNDLE)) == ({}, [])


@pytest.mark.parametrize("value", ["%%%", 7, None, base64.b64encode(b"no PEM").decode()])
def test_a_bundle_that_cannot_be_read_trusts_nobody(value):
    item = configuration(KIND, NAMES[:1])
    item["webhooks"][0]["clientConfig"]["caBundle"] = value
    (bundle,) = bundles(item).values()
    assert authorities(bundle) == frozenset()


def test_a_bundle_that_is_half_nonsense_trusts_nobody():
    broken = BUNDLE + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert authorities(broken) == frozenset()
    assert len(authorities(BUNDLE)) == 1
