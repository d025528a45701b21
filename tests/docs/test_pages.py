"""The pages hold together: links lead somewhere, and what is shown is what one may copy."""

import pytest
import yaml
from support.examples import ROOT, fenced
from support.markdown import PAGES, anchors, links

from webhook.annotation import FIELD, read_asked

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_links_within_the_project_lead_somewhere(page):
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@each_page
def test_wh30_a_vm_carries_the_annotation_on_its_template(page):
    for block in fenced(page.read_text(), "yaml"):
        for shown in yaml.safe_load_all(block):
            if isinstance(shown, dict) and shown.get("kind") == "VirtualMachine":
                assert "dravirt.io/devices" in shown["spec"]["template"]["metadata"]["annotations"]
                assert "dravirt.io/devices" not in shown.get("metadata", {}).get("annotations", {})


@each_page
def test_annotations_that_are_shown_are_valid(page):
    for block in fenced(page.read_text(), "yaml"):
        for shown in yaml.safe_load_all(block):
            for text in _annotations(shown):
                assert read_asked(text, FIELD).requests


def test_there_are_pages_and_annotations_to_look_at():
    texts = [text for page in PAGES for block in fenced(page.read_text(), "yaml") for text in _of(block)]
    assert len(PAGES) >= 13
    assert len(texts) >= 12


def _of(block: str) -> list[str]:
    return [text for shown in yaml.safe_load_all(block) for text in _annotations(shown)]


def _annotations(shown: object) -> list[str]:
    """Return each value under the annotation's key, however deep."""
    if isinstance(shown, list):
        return [text for item in shown for text in _annotations(item)]
    if not isinstance(shown, dict):
        return []
    own = [value for key, value in shown.items() if key == "dravirt.io/devices"]
    return own + [text for value in shown.values() for text in _annotations(value)]
