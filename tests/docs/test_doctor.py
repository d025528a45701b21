"""docs/doctor.md has each finding, as severe as it is, and shows what the command prints."""

import re

import yaml
from support import doctorfacts as facts
from support.examples import ROOT, fenced
from support.markdown import codes, rows, section

from cli.doctor.checks import diagnose
from cli.doctor.codes import Code, Severity
from cli.doctor.report import to_text

PAGE = ROOT / "docs" / "doctor.md"
SECTIONS = ("### Kubernetes and KubeVirt", "### dravirt", "### Drivers and VMs", "### Not seen")


def test_each_code_has_one_row_with_its_severity():
    headings = (*SECTIONS, "## Before dravirt is removed")
    told = [(codes(row[0])[0], row[1]) for heading in headings for row in rows(section(PAGE, heading))]
    assert sorted(told) == sorted((str(each), str(each.severity)) for each in Code)


def test_each_severity_is_explained():
    assert [codes(row[0])[0] for row in rows(section(PAGE, "## What it prints"))] == list(Severity)


def test_the_output_shown_is_what_it_prints():
    (shown,) = fenced(section(PAGE, "## What it prints"), "text")
    permitted = {"permittedHostDevices": {"pciHostDevices": [{"resourceName": "nvidia.com/T4"}]}}
    diagnosis = diagnose(facts.prepared(kubevirt=facts.kubevirt({**facts.KEEPS_MDEVS, **permitted})))
    head, _, _ = shown.partition("…")
    assert to_text(diagnosis).startswith(head.rstrip())


def test_the_codes_of_reasons_that_are_named_are_there():
    named = set(re.findall(r"\(`([a-z_]+)`\)", PAGE.read_text()))
    assert named == {"claims_dropped", "untrusted_creator"}


def test_the_job_may_read_and_nothing_else_but_questions_and_dry_runs_of_its_own():
    items = list(yaml.safe_load_all((ROOT / "deploy" / "doctor" / "rbac.yaml").read_text()))
    creates = [
        (item["kind"], item["metadata"].get("namespace"), rule["resources"])
        for item in items
        for rule in item.get("rules", [])
        if not set(rule["verbs"]) <= {"get", "list"}
    ]
    assert creates == [
        ("ClusterRole", None, ["subjectaccessreviews"]),
        ("Role", "dravirt-doctor", ["pods"]),
        ("Role", "dravirt-doctor", ["virtualmachines"]),
    ]
    assert "secrets" not in str(items)
