"""The corpus helpers find what the corpus holds: a filter that finds nothing is an error, not an empty test run."""

import pytest
from support.corpus import Case, corpus_cases, corpus_tags, live_reviews


@pytest.mark.corpus
def test_corpus_holds_all_releases_from_v1_5_on():
    assert {"v1.5.3", "v1.6.6", "v1.8.4", "v1.9.0", "main"} <= set(corpus_tags())


@pytest.mark.parametrize("case", corpus_cases("pods", names=["opt-one", "plain"], tags=["v1.9.0"]))
def test_case_reads_pod_domain_and_vmi(case: Case):
    assert case.pod()["kind"] == "Pod"
    assert case.domain().startswith(b"<domain")
    assert ("dravirt.io/devices" in case.vmi()["metadata"].get("annotations", {})) == case.optin


@pytest.mark.parametrize("case", corpus_cases("passes", tags=["v1.9.0"]))
def test_case_reads_the_passes_of_one_define(case: Case):
    assert 2 <= len(case.passes()) <= 3


@pytest.mark.corpus
def test_filter_without_a_match_is_an_error():
    with pytest.raises(ValueError, match="no case of pods"):
        corpus_cases("pods", names=["no-such-case"])
    with pytest.raises(ValueError, match="no live review"):
        live_reviews("no-such-review")


@pytest.mark.corpus
def test_bug_inputs_stand_beside_the_corpus(bug_inputs):
    assert (bug_inputs / "xm02-doctype.domain.xml").is_file()
