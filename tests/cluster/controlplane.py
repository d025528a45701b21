"""The control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from cluster.api import Api, ApiError
from cluster.network import API, API_SERVICE, ETCD, ETCD_PEER, HOST, SERVICES
from cluster.pki import Authority, Pair
from cluster.process import Process, Processes

ADMIN = "admin"
KUBEVIRT_API = "system:serviceaccount:kubevirt:kubevirt-apiserver"
KUBEVIRT_CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
KUBEVIRT_HANDLER = "system:serviceaccount:kubevirt:kubevirt-handler"
KUBEVIRT_ELSEWHERE = "virtualization"
"""Another namespace that KubeVirt may be in."""
NODE = "system:node:node-1"
PROXY = "system:kube-proxy"
SCHEDULER = "system:kube-scheduler"
WEBHOOK = "system:serviceaccount:dravirt-system:dravirt-webhook"

_MASTERS = ("system:masters",)


def elsewhere(user: str) -> str:
    """Return what one of KubeVirt's parts goes by where KubeVirt is in the other namespace."""
    return user.replace(":kubevirt:", f":{KUBEVIRT_ELSEWHERE}:")


_USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: _MASTERS,
    # KubeVirt's parts go by their own names, which its webhooks and ours look at, but with all rights.
    KUBEVIRT_API: ("system:serviceaccounts", "system:serviceaccounts:kubevirt", *_MASTERS),
    KUBEVIRT_CONTROLLER: ("system:serviceaccounts", "system:serviceaccounts:kubevirt", *_MASTERS),
    KUBEVIRT_HANDLER: ("system:serviceaccounts", "system:serviceaccounts:kubevirt", *_MASTERS),
    **{
        elsewhere(user): ("system:serviceaccounts", f"system:serviceaccounts:{KUBEVIRT_ELSEWHERE}", *_MASTERS)
        for user in (KUBEVIRT_API, KUBEVIRT_CONTROLLER, KUBEVIRT_HANDLER)
    },
    NODE: ("system:nodes",),
    PROXY: (),
    SCHEDULER: (),
    WEBHOOK: ("system:serviceaccounts", "system:serviceaccounts:dravirt-system"),
}


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane that runs, and what its clients need."""

    url: str
    authority: Authority
    folder: Path
    processes: Mapping[str, Process]
    clients: list[Api] = field(default_factory=list)

    def api(self, user: str = ADMIN) -> Api:
        """Return a client that acts as `user`, until the control plane is closed."""
        self.clients.append(Api(self.url, _token(user), self.authority.pair.certificate))
        return self.clients[-1]

    def close(self) -> None:
        """Close the clients."""
        for each in self.clients:
            each.close()

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Return the kubeconfig of `user`."""
        return _write_kubeconfig(self.folder, self.url, self.authority, user)


def start(
    processes: Processes, programs: Mapping[str, Path], folder: Path, server_flags: Sequence[str] = ()
) -> ControlPlane:
    """Start a control plane whose state is in `folder`. Raises NotReady."""
    folder.mkdir()
    authority = Authority(folder / "pki")
    url = f"https://{HOST}:{API}"
    tokens = folder / "tokens.csv"
    tokens.write_text("".join(f'{_token(name)},{name},{name},"{",".join(of)}"\n' for name, of in _USERS.items()))
    etcd = processes.start("etcd", [programs["etcd"], *_etcd_flags(folder)])
    flags = [*_server_flags(folder, authority, tokens), *server_flags]
    server = processes.start("kube-apiserver", [programs["kube-apiserver"], *flags])
    started = {"etcd": etcd, "kube-apiserver": server}
    plane = ControlPlane(url, authority, folder, started)
    api = plane.api()
    server.wait_until(lambda: _ready(api), seconds=60, what="ready")
    for name, user, more in (
        ("kube-controller-manager", ADMIN, _controller_flags(authority, folder)),
        ("kube-scheduler", SCHEDULER, ()),
    ):
        flags = [f"--kubeconfig={plane.kubeconfig(user)}", "--leader-elect=false", "--secure-port=0", *more]
        started[name] = processes.start(name, [programs[name], *flags])
    # The controller manager makes it: with it, pods can be created.
    started["kube-controller-manager"].wait_until(
        lambda: api.get("v1", "ServiceAccount", "default"), seconds=60, what="the default service account"
    )
    return plane


def _etcd_flags(folder: Path) -> list[str]:
    client, peer = f"http://127.0.0.1:{ETCD}", f"http://127.0.0.1:{ETCD_PEER}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def _server_flags(folder: Path, authority: Authority, tokens: Path) -> list[str]:
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    serving = authority.issue("kube-apiserver", HOST, API_SERVICE, "127.0.0.1", "localhost", *names)
    proxy = authority.issue("front-proxy")
    signing = authority.signing_key("service-accounts")
    ca = authority.pair.certificate
    return [
        f"--etcd-servers=http://127.0.0.1:{ETCD}",
        f"--secure-port={API}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        *_tls("--tls-cert-file={}", "--tls-private-key-file={}", serving),
        f"--service-cluster-ip-range={SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={signing}",
        f"--service-account-signing-key-file={signing}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # All three wire formats of DRA.
        "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
        # Webhooks and API services are called at their Service's endpoints: no kube-proxy is needed for them.
        "--enable-aggregator-routing=true",
        f"--client-ca-file={ca}",
        f"--requestheader-client-ca-file={ca}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *_tls("--proxy-client-cert-file={}", "--proxy-client-key-file={}", proxy),
    ]


def _controller_flags(authority: Authority, folder: Path) -> list[str]:
    return [
        f"--service-account-private-key-file={folder / 'pki' / 'service-accounts.key'}",
        f"--root-ca-file={authority.pair.certificate}",
        # Nodes may be made by hand, with nobody to renew their leases.
        "--controllers=*,-node-lifecycle-controller",
    ]


def _tls(certificate: str, key: str, pair: Pair) -> list[str]:
    return [certificate.format(pair.certificate), key.format(pair.key)]


def _token(user: str) -> str:
    return user.replace(":", "-")


def _write_kubeconfig(folder: Path, url: str, authority: Authority, user: str) -> Path:
    cluster = {"server": url, "certificate-authority": str(authority.pair.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": _token(user)}}],
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": user}}],
        "current-context": "cluster",
    }
    path = folder / f"{_token(user)}.kubeconfig"
    path.write_text(json.dumps(config, indent=2))
    return path


def _ready(api: Api) -> bool:
    with suppress(ApiError, httpx.TransportError):
        return api.request("GET", "/readyz") == "ok"
    return False
