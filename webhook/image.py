"""Image references, checked before they go into a pod: a wrong one would show only as a VM that does not start.

Source: github.com/distribution/reference, regexp.go.
"""

import re

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*)(?::{_TAG})?(?:@(?:{_DIGEST}))?"
)
_MAX_NAME = 255
_MAX_REFERENCE = 600  # name, tag and the longest digest


def is_image(text: str) -> bool:
    """True if `text` names an image: `[host[:port]/]path[:tag][@digest]`."""
    match = _REFERENCE.fullmatch(text) if len(text) <= _MAX_REFERENCE else None
    return match is not None and len(match["name"]) <= _MAX_NAME
