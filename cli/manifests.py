"""Kubernetes objects as people write and read them: YAML as kubectl takes it, or JSON."""

import json
from typing import Any

import yaml

from cli.files import read_bytes
from dra.errors import Refused
from dra.reasons import Reason


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # chosen at run time
    """Takes a date for text, as kubectl does: a ResourceClaimTemplate may be called 2024-01-01."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.constructor.SafeConstructor.construct_yaml_str)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and the same value twice rather than an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the signature is PyYAML's)
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def read_manifests(name: str) -> list[dict[str, Any]]:
    """Return the Kubernetes objects in the file `name`. Raises Refused where it holds something else."""
    try:
        documents = [value for value in yaml.load_all(read_bytes(name), _Loader) if value is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        cause = " ".join(str(error).split())
        raise Refused(Reason.UNREADABLE, f"is neither YAML nor JSON: {cause:.200}", path=name) from error
    if not all(isinstance(document, dict) for document in documents):
        raise Refused(Reason.UNREADABLE, "must hold Kubernetes objects", path=name)
    return documents


def read_manifest(name: str) -> dict[str, Any]:
    """Return the one Kubernetes object in the file `name`. Raises Refused where there is none or more than one."""
    documents = read_manifests(name)
    if len(documents) != 1:
        raise Refused(Reason.UNREADABLE, f"must hold one Kubernetes object, holds {len(documents)}", path=name)
    return documents[0]


def to_yaml(value: Any) -> str:
    """Return `value` as YAML, its fields in their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return text


def to_json(value: Any) -> str:
    """Return `value` as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
