"""An API server that a look of `dravirt doctor` may be taken at: a prepared cluster, of which a test breaks a part."""

import copy
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support import doctorfacts as facts
from support.certserver import CertServer
from support.simulatedcluster import patched

from certs.store import Conflict

_KUBEVIRT = "/apis/kubevirt.io/v1"
_DRAVIRT = f"namespaces/{facts.NAMESPACE}"
_PAGE = 2
"""Objects in one answer, however many are asked for."""


class DoctorServer(CertServer):
    """Objects and lists by their path; what is not there answers 404."""

    items: dict[str, Any]
    tried_pod: Any = None
    """What a dry run of a pod is answered with; None: with the pod."""
    forbidden: set[str]
    """Parts of paths that the user may not use."""
    denial: str
    """What is said to a VM that is tried."""

    def prepare(self) -> "DoctorServer":
        """Fill the cluster as it must be."""
        mutating, validating = facts.registrations()
        self.forbidden = set()
        self.denial = facts.DENIAL
        self.items = {
            "/version": {"gitVersion": "v1.36.3"},
            "/apis/resource.k8s.io": {"versions": [{"version": "v1"}]},
            "/apis/resource.k8s.io/v1/resourceslices": [facts.slice_of(facts.VF)],
            "/apis/resource.k8s.io/v1/deviceclasses": [facts.device_class()],
            f"{_KUBEVIRT}/kubevirts": [facts.kubevirt(facts.KEEPS_MDEVS)],
            f"{_KUBEVIRT}/virtualmachines": [facts.vm()],
            f"{_KUBEVIRT}/virtualmachineinstances": [facts.vmi(owner="vm1")],
            f"{_KUBEVIRT}/namespaces/team-a/virtualmachines": [facts.vm()],
            f"{_KUBEVIRT}/namespaces/team-a/virtualmachineinstances": [],
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": [mutating],
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": [validating],
            f"/apis/apps/v1/{_DRAVIRT}/deployments/{facts.SERVICE}": facts.deployment(),
            f"/apis/policy/v1/{_DRAVIRT}/poddisruptionbudgets": [facts.budget()],
            f"/apis/discovery.k8s.io/v1/{_DRAVIRT}/endpointslices": [facts.endpoint_slice()],
            f"/api/v1/{_DRAVIRT}/secrets/{facts.SERVICE}-tls": facts.secret(),
            f"/api/v1/{_DRAVIRT}/configmaps/dravirt-config": {
                "metadata": {"name": "dravirt-config", "namespace": facts.NAMESPACE},
                "data": {"config.yaml": facts.TEXT},
            },
        }
        return self

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and object."""
        split = urlsplit(path)
        self.asked.append((method, split.path))
        if any(part in split.path for part in self.forbidden):
            verb = "create" if method == "POST" else "list"
            return _status(403, f'forbidden: User "jane" cannot {verb} resource in {split.path}')
        if method == "POST":
            return self._create(split.path, body, dry="dryRun=All" in split.query)
        if method == "PATCH":
            return self._patch(split.path, body)
        found = self.items.get(split.path)
        if isinstance(found, list):
            return self._page(found, parse_qs(split.query))
        return (200, copy.deepcopy(found)) if found is not None else _status(404, f"{path} not found")

    def _create(self, path: str, body: Any, *, dry: bool) -> tuple[int, Any]:
        if path.endswith("/subjectaccessreviews"):
            return 201, {**body, "status": {"allowed": True}}
        assert dry, "nothing is created but reviews"
        if path.endswith("/virtualmachines"):
            return _status(403, self.denial)
        return 201, self.tried_pod or body

    def _patch(self, path: str, body: Any) -> tuple[int, Any]:
        (item,) = self.items[f"{_KUBEVIRT}/kubevirts"]
        assert path == f"{_KUBEVIRT}/namespaces/kubevirt/kubevirts/kubevirt"
        try:
            changed = patched(item, body, "43")
        except Conflict as conflict:
            return _status(409, conflict.message)
        self.items[f"{_KUBEVIRT}/kubevirts"] = [changed]
        return 200, changed

    def _page(self, found: list[Any], query: dict[str, list[str]]) -> tuple[int, Any]:
        start = int(query.get("continue", ["0"])[0])
        more = str(start + _PAGE) if len(found) > start + _PAGE else ""
        kind = str(found[0].get("kind", "Thing")) if found else "Thing"
        items = [{key: value for key, value in each.items() if key != "kind"} for each in found[start : start + _PAGE]]
        return 200, {"kind": f"{kind}List", "metadata": {"continue": more}, "items": copy.deepcopy(items)}


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "code": code, "message": message}
