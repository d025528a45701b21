"""docs/reasons.md has every code once."""

import re

from support.examples import ROOT
from support.markdown import codes, rows, section

from dra.metadata import MAX_METADATA
from dra.reasons import Reason

PAGE = ROOT / "docs" / "reasons.md"
TABLES = ("## What the webhooks did", "## Servers, files and the command")


def test_every_code_is_documented_once():
    headings = re.findall(r"^### `(\w+)`$", PAGE.read_text(), flags=re.MULTILINE)
    listed = [codes(row[0])[0] for table in TABLES for row in rows(section(PAGE, table))]
    assert sorted(headings + listed) == sorted(Reason)


def test_the_bound_on_metadata_is_the_one_that_counts():
    assert f"is larger than {MAX_METADATA // 1024} KiB." in section(PAGE, "### `invalid_metadata`").replace("\n", " ")


def test_every_refusal_says_what_to_do():
    for entry in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        assert "**Do:**" in entry, entry.splitlines()[0]


def test_every_answer_of_the_sidecar_says_whether_it_waits():
    entries = re.split(r"^### ", section(PAGE, "## When the VM starts"), flags=re.MULTILINE)[1:]
    about_the_sidecar_itself = ("`invalid_intent`", "`invalid_state`")
    for entry in entries:
        if not entry.startswith(about_the_sidecar_itself):
            assert re.search(r"\*(Waits|Refuses)", entry), entry.splitlines()[0]
