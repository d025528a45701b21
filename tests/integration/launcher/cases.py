"""What virt-launcher makes of the sockets in the shared folder: cases for whatever plays it, or is it.

Each case says what lies in the folder and how many sidecars are expected, and for the releases that look into it (flat,
up to v1.5) and into its sub-folders (nested, from v1.6) what comes of it: the sockets in the order in which their
sidecars are called, each in the version agreed on, or the fault that ends virt-launcher. None: not looked at here.
Source: KubeVirt pkg/hooks/manager.go of v1.5.3, v1.6.6 and v1.8.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from support.launcher import Fault


class Kind(StrEnum):
    """What an entry of the shared folder is."""

    HOOK = "hook"
    STALE = "stale"
    """A socket on which nobody listens any more."""
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    """A symbolic link to the folder of the first entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the shared folder."""

    path: str
    kind: Kind = Kind.HOOK
    versions: tuple[str, ...] = ("v1alpha3", "v1alpha2", "v1alpha1")
    points: Mapping[str, int] = field(default_factory=lambda: {"OnDefineDomain": 0})
    """The hook points with their priorities."""
    appears: float = 0
    """Seconds after virt-launcher began to look."""
    info_takes: float = 0


Accepted = tuple[tuple[str, str], ...]
"""The sockets, by their path and the version, in the order in which their sidecars are called."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    name: str
    entries: tuple[Entry, ...]
    nested: Accepted | Fault | None = None
    flat: Accepted | Fault | None = None
    expected: int = 1
    timeout: float = 30
    shutdown: tuple[str, ...] = ()
    """The sockets whose sidecars are told of the end."""

    def __str__(self) -> str:
        return self.name


V3, V1 = "v1alpha3", "v1alpha1"
_DEFINE_AND_SHUTDOWN = {"OnDefineDomain": 0, "Shutdown": 0}

CASES = (
    Case("in-its-folder", (Entry("a/a.sock"),), nested=(("a/a.sock", V3),)),
    Case("in-its-folder-for-the-flat", (Entry("a/a.sock"),), flat=Fault.TIMEOUT, timeout=1),
    Case("flat", (Entry("a.sock"),), flat=(("a.sock", V3),)),
    Case("flat-for-the-nested", (Entry("a.sock"),), nested=Fault.TIMEOUT, timeout=0.5),
    Case(
        "both-layouts",
        (Entry("a.sock"), Entry("a/a.sock")),
        nested=(("a/a.sock", V3),),
        flat=(("a.sock", V3),),
    ),
    Case("newest-version-whatever-the-order", (Entry("a/a.sock", versions=(V1, V3)),), nested=(("a/a.sock", V3),)),
    Case("oldest-version-alone", (Entry("a/a.sock", versions=(V1,)),), nested=(("a/a.sock", V1),)),
    Case("no-version-in-common", (Entry("a/a.sock", versions=("v1alpha9",)),), nested=Fault.VERSION),
    Case("slow-info", (Entry("a/a.sock", info_takes=1.5),), nested=Fault.INFO),
    Case("late", (Entry("a/a.sock", appears=1),), nested=(("a/a.sock", V3),)),
    Case("never", (), nested=Fault.TIMEOUT, timeout=0.5),
    Case("too-few", (Entry("a/a.sock"),), nested=Fault.TIMEOUT, expected=2, timeout=0.7),
    Case("one-file-name-in-two-folders", (Entry("a/x"), Entry("b/x")), nested=Fault.TIMEOUT, expected=2, timeout=0.7),
    Case("first-of-one-file-name", (Entry("a/x"), Entry("b/x")), nested=(("a/x", V3),)),
    Case("surplus-of-the-same-scan", (Entry("a/a"), Entry("b/b")), nested=(("a/a", V3), ("b/b", V3))),
    Case("none-expected", (Entry("a/a"),), nested=(), expected=0),
    Case("stale-socket-before", (Entry("a/a", Kind.STALE), Entry("b/b")), nested=(("b/b", V3),)),
    Case("file-before", (Entry("a/a", Kind.FILE), Entry("a/b")), nested=(("a/b", V3),)),
    Case("too-deep", (Entry("a/b/c.sock"),), nested=Fault.TIMEOUT, timeout=0.5),
    Case("folder-beside", (Entry("a/a"), Entry("b", Kind.FOLDER)), nested=(("a/a", V3),)),
    Case("link-to-a-folder", (Entry("b/b"), Entry("a", Kind.LINK)), nested=(("b/b", V3),)),
    Case(
        "order-of-readiness",
        (Entry("a/a", appears=1), Entry("b/b")),
        nested=(("b/b", V3), ("a/a", V3)),
        expected=2,
    ),
    Case(
        "priority-orders-nothing",
        (Entry("a/a", points={"OnDefineDomain": 0}), Entry("b/b", points={"OnDefineDomain": 100})),
        nested=(("a/a", V3), ("b/b", V3)),
        expected=2,
    ),
    Case(
        "shutdown-in-its-version-only",
        (
            Entry("a/a", points=_DEFINE_AND_SHUTDOWN),
            Entry("b/b", points=_DEFINE_AND_SHUTDOWN, versions=("v1alpha2",)),
            Entry("c/c"),
        ),
        nested=(("a/a", V3), ("b/b", "v1alpha2"), ("c/c", V3)),
        expected=3,
        shutdown=("a/a",),
    ),
    Case("subscribed-to-nothing", (Entry("a/a", points={"PreCloudInitIso": 0}), Entry("b/b")), nested=(("b/b", V3),)),
)
