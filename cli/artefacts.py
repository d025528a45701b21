"""The folder that a simulation leaves its artefacts in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.apiserver import Admitted
from cli.manifests import to_json, to_yaml
from dra.errors import Failed
from dra.reasons import Reason


@dataclass(frozen=True, slots=True)
class Artefacts:
    """Writes files below `folder`, which is made where it is missing."""

    folder: Path

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file and return its path. Raises Failed where it cannot be written."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise Failed(Reason.UNWRITABLE, f"{path}: {error.strerror}: name another folder with --out") from error
        return path

    def write_object(self, name: str, item: Mapping[str, Any]) -> None:
        """Write a Kubernetes object as `<name>.yaml`."""
        self.write(f"{name}.yaml", to_yaml(item))

    def write_admission(self, name: str, admitted: Admitted) -> None:
        """Write what a webhook was asked, what it answered, its patch and the object as it is then."""
        self.write(f"admission/{name}-review.json", to_json(admitted.review))
        self.write(f"admission/{name}-answer.json", to_json(admitted.answer))
        self.write(f"admission/{name}-patch.json", to_json(admitted.patch))
        self.write_object(name, admitted.item)
