"""The authorities that sidecars trust: those of the moment, and no pod where they are not known."""

from dataclasses import replace

import pytest
from support.admission import create, intent_of, launcher_pod, patched

from dra.intent import ServiceAddress
from dra.reasons import Reason
from webhook.admission import HANDLERS
from webhook.authorities import OwnAuthorities, shown
from webhook.config import Config
from webhook.servicekeys import MAX_AUTHORITY

SERVICE = ServiceAddress("https://d:443", "", "d", "/token")
ON = Config(allocation_service=SERVICE)


@pytest.fixture
def authorities():
    """What is known of them, to be changed by a test."""
    return [""]


@pytest.fixture
def own(authorities):
    return OwnAuthorities(lambda: ON, lambda: authorities[0])


def test_they_are_those_of_the_moment_and_the_same_value_while_nothing_changes(own, authorities):
    authorities[0] = "OLD"
    first = own.config()
    assert first.allocation_service == replace(SERVICE, ca="OLD")
    assert own.config() is first

    authorities[0] = "NEW OLD"
    assert own.config().allocation_service.ca == "NEW OLD"


def test_a_file_that_names_them_comes_first():
    config = Config(allocation_service=replace(SERVICE, ca="FILE"))
    own = OwnAuthorities(lambda: config, lambda: "OWN")
    assert own.config() is config
    assert own.check().ready


def test_a_configuration_that_changes_is_completed_anew(authorities):
    configs = [ON, replace(ON, kubevirt_namespace="k"), Config()]
    own = OwnAuthorities(lambda: configs[0], lambda: "PEM")
    seen = []
    while configs:
        seen.append(own.config())
        configs.pop(0)
    assert [each.kubevirt_namespace for each in seen] == ["kubevirt", "k", "kubevirt"]
    assert [each.lacks_authority for each in seen] == [False, False, False]
    assert seen[2].allocation_service is None


def test_while_they_are_not_known_the_server_is_not_ready(own, authorities):
    assert not own.check().ready
    assert "not known yet" in own.check().detail
    authorities[0] = "PEM"
    assert own.check().ready


def test_more_than_a_sidecar_takes_is_told_and_takes_no_replica_away(own, authorities):
    authorities[0] = "x" * (MAX_AUTHORITY + 1)
    assert own.config().lacks_authority
    assert own.check().ready
    assert f"have {MAX_AUTHORITY + 1} characters" in own.check().detail


def test_a_pod_is_refused_for_another_try_while_they_are_not_known(own, authorities):
    decide = HANDLERS["/mutate/pod"].decide
    denied = decide(create(launcher_pod()), own.config())
    assert (denied.allowed, denied.reason) == (False, Reason.AUTHORITY_UNKNOWN)
    assert "KubeVirt tries again by itself" in denied.message
    assert not list(denied.patch)

    authorities[0] = "PEM"
    pod = launcher_pod()
    assert intent_of(patched(pod, decide(create(pod), own.config())))["service"]["ca"] == "PEM"


def test_what_gets_no_sidecar_does_not_wait_for_them(own):
    pod = launcher_pod()
    del pod["metadata"]["annotations"]["dravirt.io/devices"]
    assert HANDLERS["/mutate/pod"].decide(create(pod), own.config()).allowed


def test_a_person_is_shown_that_they_come_in():
    assert shown(Config()) == Config()
    assert "the webhook's certificate" in shown(ON).allocation_service.ca
