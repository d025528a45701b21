"""A namespace in which pods with claims are made: by the real controllers, but for the kubelet, which is not there."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import machines, watching
from cluster.api import Object
from cluster.process import until
from cluster.stack import Stack
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from dra.allocation import AllocatedDevice
from dra.attributes import identity_of
from dra.errors import DravirtError, Failed
from dra.intent import ServiceAddress
from dra.reasons import Reason
from hooksidecar.service import Devices, ask_service
from webhook.allocations.gate import Gate
from webhook.allocations.service import AllocationService
from webhook.kubeaccess import find_access
from webhook.kubeclient import KubeClient
from webhook.kubedra import Cluster

CLAIMS = machines.CLAIMS
AUDIENCE = "dravirt.io"


@dataclass
class Site:
    """One namespace."""

    stack: Stack
    service: dict[str, str]
    kubeconfig: Path
    namespace: str
    folder: Path
    made: list[Object] = field(default_factory=list)

    @property
    def api(self) -> Any:
        return self.stack.api

    def enter(self) -> None:
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self._until_there("v1", "ServiceAccount", "default")

    def clear(self) -> None:
        watching.clear(self.api, self.namespace)
        for item in self.made:
            self.api.delete(item)

    # What the owner of a VM makes.

    def template(self, name: str, *requests: Object, **spec: Any) -> None:
        self.api.apply(machines.template(self.namespace, name, *requests, **spec))

    def claim(self, name: str, *requests: Object) -> None:
        self.api.apply(machines.claim(self.namespace, name, *requests))

    def pod(self, name: str, *, bound: bool = True, **claims: dict[str, str]) -> Object:
        """Create an injected launcher pod with pod claims: `gpu0={"resourceClaimName": …}`; return it with its node."""
        entries = [{"name": f"dravirt-{key}", **source} for key, source in claims.items()]
        references = [{"name": each["name"]} for each in entries]
        hook = {"name": "dravirt-hook", "image": "hook", "restartPolicy": "Always", "resources": {"claims": references}}
        owner = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "name": name,
            "uid": f"11111111-0000-4000-8000-{abs(hash(name)) % 10**12:012}",
            "controller": True,
        }
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {"kubevirt.io": "virt-launcher", "dravirt.io/injected": "true"},
            "annotations": {"dravirt.io/devices": "x"},
            "ownerReferences": [owner],
        }
        spec = {
            "containers": [{"name": "compute", "image": "launcher"}],
            "initContainers": [hook],
            "resourceClaims": entries,
        }
        pod = self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pod = {"apiVersion": "v1", "kind": "Pod", **pod}
        return watching.bound(self.api, pod) | {"apiVersion": "v1", "kind": "Pod"} if bound else pod

    # What the kubelet and a driver would do.

    def token(self, pod: Object, *, audience: str = AUDIENCE) -> str:
        """Return a token of the pod, as the kubelet puts it into a projected volume."""
        metadata = pod["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": reference}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.api.request("POST", path, body)["status"]["token"]

    def forged(self, token: str, **changes: Any) -> str:
        """Return the token with other claims, signed by the control plane's own key."""
        head, body, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        claims |= changes
        key_file = self.stack.state / "control-plane" / "pki" / "service-accounts.key"
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        text = f"{head}.{_base64(json.dumps(claims).encode())}"
        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def publish(self, driver: str, *devices: Object, shared: list[Object] | None = None, node: str = "paper-1") -> None:
        """Publish a pool of the node, and make a device class for its driver."""
        slices = [{"devices": list(devices)}] + ([{"sharedCounters": shared}] if shared else [])
        pool = {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": len(slices)}
        for index, content in enumerate(slices):
            spec = {"driver": driver, "nodeName": node, "pool": pool, **content}
            self.make("ResourceSlice", f"{driver}-{index}", spec)
        self.make("DeviceClass", driver, {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]})

    def make(self, kind: str, name: str, spec: Object) -> None:
        """Make an object of no namespace, which ends with the site; or change it."""
        item = {"apiVersion": CLAIMS, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.api.apply(item)
        if name not in [each["metadata"]["name"] for each in self.made if each["kind"] == kind]:
            self.made.append(item)

    def tell(self, claim: Object, *entries: Object) -> None:
        """Write what a driver writes into a claim's status."""
        item = {"apiVersion": CLAIMS, "kind": "ResourceClaim", **claim}
        self.api.merge(item, {"status": {"devices": list(entries)}}, subresource="status")

    def claims_of(self, pod: Object) -> list[Object]:
        """Return the claims that are reserved for a pod."""
        uid = pod["metadata"]["uid"]
        found = self.api.list(CLAIMS, "ResourceClaim", self.namespace)
        return [each for each in found if uid in [of["uid"] for of in each.get("status", {}).get("reservedFor", [])]]

    # What the sidecar does.

    def ask(self, token: str) -> Devices:
        """Ask as `ask_once` does, and again for a minute where the answer is late. Raises DravirtError."""
        return _in_time(lambda: self.ask_once(token))

    def ask_once(self, token: str) -> Devices:
        """Ask as the sidecar asks: its client, over TLS, with the token in a file."""
        path = self.folder / token[-16:]
        path.write_text(token)
        service = self.service
        return ask_service(ServiceAddress(service["url"], service["ca"], service["serverName"], str(path)))

    def outcome(self, token: str) -> Devices | DravirtError:
        """Ask once, and return the answer or the error."""
        try:
            return self.ask_once(token)
        except DravirtError as error:
            return error

    def answered(self, token: str, *versions: str, seconds: float = 60) -> Devices:
        """Return the answer once there is one, from `ask_in` where versions are named.

        What may pass by itself is waited for, as a sidecar does. Raises Refused at once, NotReady with what was said
        last.
        """
        said: list[Failed] = []

        def answer() -> Devices | None:
            try:
                return self._ask_in(token, *versions) if versions else self.ask_once(token)
            except Failed as error:
                said.append(error)
                return None

        def last(*, late: bool) -> str | None:
            return f": {said[-1].reason}: {said[-1].message}" if late else None

        return until(answer, seconds=seconds, what="an answer", failed=last)

    def ask_in(self, token: str, *versions: str) -> Devices:
        """Ask as `ask` does, but a service that starts now, in this process, and may use `versions` only.

        They are versions of resource.k8s.io.
        """
        return _in_time(lambda: self._ask_in(token, *versions))

    def _ask_in(self, token: str, *versions: str) -> Devices:
        async def run() -> Devices:
            client = KubeClient(find_access(self.kubeconfig))
            try:
                cluster = Cluster(client, versions)
                answer = await AllocationService(lambda: cluster, dict, Gate()).answer(token)
                return {name: tuple(of) for name, of in answer.pod_claims.items()}
            finally:
                await client.close()

        return asyncio.run(run())

    def _until_there(self, version: str, kind: str, name: str) -> None:
        until(lambda: self.api.get(version, kind, name, self.namespace), seconds=120, what=f"{kind} {name}")


def is_late(error: DravirtError) -> bool:
    """True if an error says that time was up, as it may be on a busy machine: the service's, or that of its client."""
    texts = ("no answer within", "Timeout")
    return error.reason is Reason.API_UNAVAILABLE and any(text in error.message for text in texts)


def found(devices: Devices) -> dict[str, list[tuple[str, str, str | None]]]:
    """Return request, device and identity of each device, by pod claim."""
    return {name: [(each.request, each.device, _identity(each)) for each in of] for name, of in devices.items()}


def now() -> int:
    """Return the seconds since the epoch."""
    return int(time.time())


def _in_time(ask: Callable[[], Devices], *, seconds: float = 60) -> Devices:
    """Return the first answer that is in time. Raises Refused or Failed, a late one only when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except Failed as error:
            if not is_late(error) or time.monotonic() > deadline:
                raise


def _identity(device: AllocatedDevice) -> str | None:
    identity = identity_of(device, {})
    return None if identity is None else str(identity)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
