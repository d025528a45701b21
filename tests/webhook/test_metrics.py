"""The metrics: what is counted, and that nothing a client sends becomes a label."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.asgi import Client
from support.reviews import VM, review

from dra.reasons import Reason
from webhook.admission import HANDLERS
from webhook.app import create_app
from webhook.config import Config
from webhook.configfile import ConfigFile
from webhook.metrics import Metrics, StateCollector
from webhook.readiness import Condition, Readiness


@pytest.fixture
def metrics():
    return Metrics(*HANDLERS)


def names_and_labels(metrics):
    """Return each sample that is there, without its value."""
    families = text_string_to_metric_families(metrics.exposition().body.decode())
    return {(each.name, *sorted(each.labels.items())) for family in families for each in family.samples}


def test_reviews_are_counted_by_what_was_decided_and_told_to_the_log(metrics):
    events = []
    client = Client(create_app(Config, Readiness({}), metrics.admissions(events.append)))
    vm = {"metadata": {"name": "vm", "annotations": {"dravirt.io/devices": "Not A Name"}}, "spec": {"template": {}}}
    for item in (vm, vm, {"metadata": {"name": "vm"}, "spec": {"template": {}}}):
        client.post("/mutate/vm", json=review(item, VM))
    value = metrics.registry.get_sample_value
    asked = {"path": "/mutate/vm"}
    denied, left = (
        {"decision": "denied", "reason": "invalid_annotation"},
        {"decision": "allowed", "reason": "not_opted_in"},
    )
    assert value("dravirt_admissions_total", asked | denied) == 2
    assert value("dravirt_admissions_total", asked | left) == 1
    assert value("dravirt_admission_duration_seconds_count", asked) == 3
    assert value("dravirt_admission_duration_seconds_count", {"path": "/mutate/pod"}) == 0
    assert [event["decision"] for event in events] == ["denied", "denied", "allowed"]


def test_nothing_that_a_client_sends_becomes_a_label(metrics):
    client = Client(create_app(Config, Readiness({}), metrics.admissions(lambda _: None)))
    before = names_and_labels(metrics)
    client.post("/mutate/evil", json=review())
    client.post("/mutate/pod", json={"kind": "evil"})
    client.post("/mutate/pod", json=review(name="evil", namespace="evil"))
    added = names_and_labels(metrics) - before
    labels = {"path": "/mutate/pod", "decision": "allowed", "reason": "not_opted_in"}
    assert added == {("dravirt_admissions_total", *sorted(labels.items()))}


def test_a_duration_is_in_seconds(metrics):
    record = metrics.admissions(lambda _: None)
    record({"path": "/mutate/pod", "decision": "patched", "reason": Reason.INJECTED, "ms": 3.0})
    value, labels = metrics.registry.get_sample_value, {"path": "/mutate/pod"}
    assert value("dravirt_admission_duration_seconds_sum", labels) == 0.003
    assert value("dravirt_admission_duration_seconds_bucket", labels | {"le": "0.0025"}) == 0
    assert value("dravirt_admission_duration_seconds_bucket", labels | {"le": "0.005"}) == 1


def test_answers_of_the_allocation_service_are_counted_by_outcome(metrics):
    record = metrics.allocations(lambda _: None)
    record({"outcome": "answered", "ms": 20.0})
    record({"outcome": "failed", "reason": Reason.BUSY, "ms": 1.0})
    value = metrics.registry.get_sample_value
    assert value("dravirt_allocation_answers_total", {"outcome": "answered", "reason": ""}) == 1
    assert value("dravirt_allocation_answers_total", {"outcome": "failed", "reason": "busy"}) == 1
    assert value("dravirt_allocation_duration_seconds_count") == 2


def test_each_server_counts_for_itself(metrics):
    other = names_and_labels(Metrics(*HANDLERS))
    metrics.admissions(lambda _: None)({"path": "/mutate/pod", "decision": "allowed", "reason": "x", "ms": 1.0})
    assert names_and_labels(metrics) > other == names_and_labels(Metrics(*HANDLERS))


def test_the_state_is_that_of_the_moment(metrics, tmp_path):
    now = [100.0]
    path = tmp_path / "config.yaml"
    path.write_text("mode: append")
    file = ConfigFile(path, clock=lambda: now[0])
    readiness = Readiness({"certificate": lambda: Condition(ready=False)})
    metrics.registry.register(StateCollector(readiness, file, None))
    value, used = metrics.registry.get_sample_value, {"mode": "append", "allocation_service": "off"}
    assert value("dravirt_config_info", used) == 1
    assert value("dravirt_config_last_reload_successful") == 1
    assert value("dravirt_config_last_reload_success_timestamp_seconds") == file.read_at
    assert value("dravirt_ready", {"condition": "serving"}) == 1
    assert value("dravirt_ready", {"condition": "certificate"}) == 0
    assert not [name for name, *_ in names_and_labels(metrics) if name.startswith("dravirt_certificate")]

    path.write_text("mode: [")
    readiness.draining = True
    now[0] += 10
    assert value("dravirt_config_info", used) == 1
    assert value("dravirt_config_last_reload_successful") == 0
    assert value("dravirt_config_last_reload_success_timestamp_seconds") == file.read_at
    assert value("dravirt_ready", {"condition": "serving"}) == 0
