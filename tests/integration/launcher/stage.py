"""The shared folder of a case, laid out for whatever plays virt-launcher."""

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self

from integration.launcher.cases import Case, Entry, Kind
from support.otherhooks import OtherHook, other_hook


class Stage:
    """A case's hooks and whatever else lies in its folder. Each hook adds its path to the domain that it is given."""

    """The shared folder of a case, with its hooks running."""

    def __init__(self, folder: Path, case: Case) -> None:
        self._folder, self._case = folder, case
        self.hooks: dict[str, OtherHook] = {}
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for entry in self._case.entries:
            if not entry.appears:
                self._lay(entry)
        for entry in self._case.entries:  # (timers last: what is there from the start must be there before)
            if entry.appears:
                timer = threading.Timer(entry.appears, self._lay, [entry])
                timer.start()
                self._ends.callback(timer.join)
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def _lay(self, entry: Entry) -> None:
        path = self._folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind is Kind.HOOK:
            options = {"versions": entry.versions, "points": entry.points, "info_takes": entry.info_takes}
            hook = self._ends.enter_context(other_hook(path, **options, edit=lambda xml: xml + entry.path.encode()))
            self.hooks[entry.path] = hook
        elif entry.kind is Kind.STALE:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        elif entry.kind is Kind.LINK:
            path.symlink_to(self._folder / Path(self._case.entries[0].path).parent)
        elif entry.kind is Kind.FILE:
            path.touch()
        else:
            path.mkdir()

    def called(self, method: str) -> set[tuple[str, str]]:
        """Return the sockets and versions that were called."""
        return {
            (path, version) for path, hook in self.hooks.items() for version, name, _ in hook.calls if name == method
        }
