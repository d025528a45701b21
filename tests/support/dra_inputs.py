"""What the tests of dra share: the field that holds an annotation, valid names, and hostile texts."""

from hypothesis import settings
from hypothesis import strategies as st

ANNOTATION = "spec.template.metadata.annotations[dravirt.io/devices]"

MAX_MESSAGE = 1200
"""Characters of an error, whatever was sent: it must fit a condition, a log line and a terminal."""

bounded = settings(max_examples=60, deadline=None)

labels = st.text("ab0-", max_size=6).map(lambda text: f"a{text}0") | st.sampled_from(["a", "0", "1e3", "no"])
subdomains = st.lists(labels, min_size=1, max_size=3).map(".".join)
request_names = st.one_of(labels, st.tuples(labels, labels).map("/".join))
json_values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 10**30, 1.0, 1e300, "", "a", "a\nb", "\u0430", "\ud800"])
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)

UNSAFE_NAMES = {
    "empty": "",
    "blank": " ",
    "upper-case": "GPU0",
    "underscore": "gpu_0",
    "blank-inside": "gpu 0",
    "blank-before": " gpu0",
    "newline-after": "gpu0\n",
    "dash-before": "-gpu0",
    "dash-after": "gpu0-",
    "nul": "gpu\x000",
    "escape-sequence": "\x1b[31mgpu0",
    "cyrillic-a": "\u0430100",
    "fullwidth-digit": "gpu\uff10",
    "zero-width-joiner": "gpu\u200d0",
    "right-to-left-override": "gpu\u202e0",
    "half-a-character": "gpu\ud800",
    "arabic-digit": "gpu\u0660",
    "parent-folder": "..",
    "path-traversal": "../../etc/passwd",
    "absolute-path": "/etc/passwd",
    "backslash": "..\\gpu0",
    "percent": "gpu%2f0",
    "shell": "$(reboot)",
    "xml": "<gpu/>",
    "quote": "gpu'0",
    "colon": "gpu:0",
}
"""Texts that are neither a DNS label nor a DNS subdomain."""
