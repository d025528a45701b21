"""Everything that an API server holds: what an installation has brought, and what its removal has left."""

from cluster.api import Api

_PASSING = {"events", "leases", "componentstatuses", "endpointslices", "endpoints"}
"""Kinds that controllers write all the time. (Endpoints end with their Services.)"""


def inventory(api: Api) -> set[str]:
    """Return the name of each object, as `group/version/resource namespace/name`."""
    found = set()
    for group in _groups(api):
        for kind in api.request("GET", group)["resources"] or ():
            if "list" not in (kind["verbs"] or ()) or "/" in kind["name"] or kind["name"] in _PASSING:
                continue
            for item in api.request("GET", f"{group}/{kind['name']}")["items"] or ():
                metadata = item["metadata"]
                found.add(f"{group}/{kind['name']} {metadata.get('namespace', '')}/{metadata['name']}")
    return found


def _groups(api: Api) -> list[str]:
    """Return the path of each group in its preferred version."""
    listed = api.request("GET", "/apis")["groups"]
    return ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in listed)]
