"""What the webhook configurations trust: read as it is, and mended where it is not the bundle of the Secret.

Pure: a configuration goes in as the API server gives it, a JSON Patch comes out.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from certs.certificates import Certificate, read_certificates

RawObject = Mapping[str, Any]
Operation = dict[str, Any]


def bundles(configuration: RawObject) -> dict[str, bytes]:
    """Return the caBundle of each webhook by its name, b"" where there is none that can be read."""
    return {str(entry.get("name")): _bundle(entry) for entry in _entries(configuration)}


def authorities(bundle: bytes) -> frozenset[Certificate]:
    """Return the authorities in a caBundle, none where it cannot be read: an API server then trusts none either."""
    try:
        return frozenset(read_certificates(bundle))
    except ValueError:
        return frozenset()


def mend(configuration: RawObject, bundle: bytes) -> list[Operation]:
    """Return the patch after which every webhook of the configuration trusts `bundle`, empty where each does.

    It applies to the version that was read and to no other: a replica that stood still must not bring an old bundle
    back. Entries are tested by name, since a patch can only address them by their place.
    """
    operations: list[Operation] = []
    for index, entry in enumerate(_entries(configuration)):
        if _bundle(entry) != bundle:
            path = f"/webhooks/{index}"
            operations.append({"op": "test", "path": f"{path}/name", "value": entry.get("name")})
            value = base64.b64encode(bundle).decode()
            operations.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": value})
    if not operations:
        return []
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def _entries(configuration: RawObject) -> list[RawObject]:
    return configuration.get("webhooks") or []


def _bundle(entry: RawObject) -> bytes:
    try:
        return base64.b64decode((entry.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except (binascii.Error, TypeError):
        return b""
