"""The diagnosis, for a person at a terminal or for a machine."""

import textwrap
from collections.abc import Iterator
from typing import Any

from cli.doctor.checks import Diagnosis
from cli.doctor.codes import Severity
from cli.doctor.finding import Finding

_ROW = 100


def to_text(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as text: problems first, a paragraph each, then one line of what is well."""
    paragraphs = [_head(diagnosis)]
    paragraphs += [_paragraph(each) for each in diagnosis.findings if each.severity is not Severity.UNKNOWN]
    if unseen := [each for each in diagnosis.findings if each.severity is Severity.UNKNOWN]:
        paragraphs.append("\n".join(_unseen(unseen)))
    if diagnosis.well:
        paragraphs.append(f"well: {', '.join(diagnosis.well)}")
    return "\n\n".join(paragraphs)


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON."""
    return {
        "good": diagnosis.is_good,
        "findings": [each.to_json() for each in diagnosis.findings],
        "well": list(diagnosis.well),
    }


def _head(diagnosis: Diagnosis) -> str:
    counts = (
        (diagnosis.count(Severity.ERROR), "error", "errors"),
        (diagnosis.count(Severity.WARNING), "warning", "warnings"),
        (diagnosis.count(Severity.UNKNOWN), "thing not seen", "things not seen"),
    )
    told = [f"{number} {one if number == 1 else many}" for number, one, many in counts if number]
    return ", ".join(told) or "nothing is wrong"


def _paragraph(finding: Finding) -> str:
    lines = [f"{finding.severity}: {finding.code}: {finding.subject}"]
    lines += [*_wrapped(finding.what), *_wrapped(f"why: {finding.code.why}")]
    if finding.remedy:
        # On one line, so that it can be pasted.
        lines += ["  mend:", f"    {finding.remedy}"]
    return "\n".join(lines)


def _unseen(findings: list[Finding]) -> Iterator[str]:
    yield "unknown: unseen"
    for each in findings:
        yield from _wrapped(f"{each.subject}: {each.what}")
    yield "  mend:"
    yield f"    {findings[0].remedy}"


def _wrapped(text: str) -> list[str]:
    # (what drivers and webhooks of others write reaches a terminal here)
    plain = "".join(each if each.isprintable() else " " for each in text)
    return textwrap.wrap(
        plain, _ROW, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
