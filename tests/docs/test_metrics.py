"""docs/metrics.md has every metric, with its type, labels and values, and alerts that use what there is."""

import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from webhook.admission import HANDLERS
from webhook.configfile import ConfigFile
from webhook.metrics import Metrics, StateCollector
from webhook.readiness import Condition, Readiness

PAGE = ROOT / "docs" / "metrics.md"


class Numbers:
    """What is counted of certificates."""

    def __init__(self):
        self.ends = {"server": 1.0, "ca": 2.0}
        self.reloads = self.failures = 1


@pytest.fixture(scope="module")
def families():
    """The metrics of a server on which everything has happened once, by their name on the page."""
    metrics = Metrics(*HANDLERS)
    readiness = Readiness(dict.fromkeys(("configuration", "authorities", "certificate"), lambda: Condition(ready=True)))
    metrics.registry.register(StateCollector(readiness, ConfigFile(None), Numbers()))
    metrics.admissions(lambda _: None)({"path": "/mutate/pod", "decision": "denied", "reason": "no_compute", "ms": 1.0})
    metrics.allocations(lambda _: None)({"outcome": "answered", "ms": 1.0})
    text = metrics.exposition().body.decode()
    found = text_string_to_metric_families(text)
    return {f"{each.name}_total" if each.type == "counter" else each.name: each for each in found}


def _labels(family):
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def test_the_table_has_every_metric_with_its_type_and_labels(families):
    table = {codes(row[0])[0]: (row[1], set(codes(row[2]))) for row in rows(section(PAGE, "## What there is"))}
    ours = {name: (each.type, _labels(each)) for name, each in families.items() if not name.startswith("process_")}
    assert table == ours


def test_the_common_metrics_are_those_of_the_client(families):
    named = set(re.findall(r"`(process_\w+)`", PAGE.read_text()))
    assert named == {name for name in families if name.startswith("process_")}


def test_names_have_our_prefix_and_their_unit(families):
    for name, family in families.items():
        assert name.startswith(("dravirt_", "process_"))
        assert "milli" not in name
        assert family.documentation


def test_the_values_of_labels_are_named(families):
    row = next(each for each in rows(section(PAGE, "## What there is")) if "dravirt_admissions_total" in each[0])
    assert set(HANDLERS) <= set(codes(row[3]))


def test_the_table_of_conditions_has_each_of_readyz(families):
    shown = [codes(row[0])[0] for row in rows(section(PAGE, "## Readiness"))]
    assert shown == [sample.labels["condition"] for sample in families["dravirt_ready"].samples]


def test_alerts_use_metrics_labels_and_values_that_are_there(families):
    shown = [item for block in fenced(PAGE.read_text(), "yaml") for item in yaml.safe_load_all(block)]
    (rule,) = (item for item in shown if item["kind"] == "PrometheusRule")
    alerts = rule["spec"]["groups"][0]["rules"]
    assert len({each["alert"] for each in alerts}) == len(alerts) >= 4
    for alert in alerts:
        for name in re.findall(r"dravirt_\w+", alert["expr"]):
            family = families[name.removesuffix("_bucket")]
            labels = re.findall(rf"{name}{{(.*?)}}", alert["expr"])
            assert {each for text in labels for each in re.findall(r"(\w+)[!=~]+\"", text)} <= _labels(family)
        assert alert["annotations"]["summary"]
        assert alert["labels"]["severity"] in {"critical", "warning"}
