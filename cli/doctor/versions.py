"""Versions of Kubernetes and KubeVirt, and whether DRA is served in one that dravirt reads.

Source: KEP-4381 (resource.k8s.io v1beta1 from 1.32 on, v1 from 1.34 on, switched on by default).
"""

from collections.abc import Iterator

from cli.doctor.codes import Code
from cli.doctor.facts import RawObject, Settings
from cli.doctor.finding import Finding
from cli.doctor.kubevirt import kubevirt_version, parse, subject
from cli.doctor.settings import change
from webhook.kubedra import VERSIONS
from webhook.raw import mapping

_DRA_BETA, _DRA_STABLE, _KUBEVIRT = (1, 32), (1, 34), (1, 5)
_API_SERVER = "API server"


def check_kubernetes(version: str, served: tuple[str, ...]) -> Iterator[Finding]:
    """Find an API server that is too old, or that serves no DRA."""
    number = parse(version)
    if number and number < _DRA_BETA:
        what = f"it is Kubernetes {version}: 1.34 is needed, or 1.32 with resource.k8s.io/v1beta1"
        yield Finding(Code.KUBERNETES_TOO_OLD, _API_SERVER, what, "kubeadm upgrade plan")
    elif not set(served).intersection(VERSIONS):
        there = ", ".join(served) or "no version"
        what = f"Kubernetes {version} serves {there} of resource.k8s.io; one of {', '.join(VERSIONS)} is needed"
        yield Finding(Code.DRA_NOT_SERVED, _API_SERVER, what, _switch_on(number))


def _switch_on(number: tuple[int, int] | None) -> str:
    """Return how DRA is switched on: a flag of the API server's static pod, in an editor nobody can do without."""
    if number and number >= _DRA_STABLE:
        flag = "--runtime-config=resource.k8s.io/v1=true"
    else:
        flag = "--feature-gates=DynamicResourceAllocation=true --runtime-config=resource.k8s.io/v1beta1=true"
    return add_flags(flag)


def add_flags(flags: str) -> str:
    """Return the command that adds flags to the static pod of an API server made by kubeadm, run on its node."""
    lines = "\\n".join(f"    - {flag}" for flag in flags.split())
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    return f"sudo sed -i 's|^    - kube-apiserver$|&\\n{lines}|' {manifest}"


def check_kubevirt(kubevirt: RawObject | None, settings: Settings | None) -> Iterator[Finding]:
    """Find a KubeVirt that is missing, too old, or elsewhere than dravirt is told."""
    if kubevirt is None:
        remedy = (
            "v=$(curl -s https://storage.googleapis.com/kubevirt-prow/release/kubevirt/kubevirt/stable.txt) && "
            'for f in operator cr; do kubectl apply -f "https://github.com/kubevirt/kubevirt/releases/download/$v/'
            'kubevirt-$f.yaml"; done'
        )
        yield Finding(Code.KUBEVIRT_MISSING, "KubeVirt", "there is no KubeVirt object", remedy)
        return
    version = kubevirt_version(kubevirt)
    if (number := parse(version)) and number < _KUBEVIRT:
        remedy = "kubectl apply -f https://github.com/kubevirt/kubevirt/releases/download/v1.8.4/kubevirt-operator.yaml"
        yield Finding(Code.KUBEVIRT_TOO_OLD, subject(kubevirt), f"it is KubeVirt {version}: 1.5 is needed", remedy)
    namespace = str(mapping(kubevirt, "metadata").get("namespace"))
    if settings and not settings.fault and settings.config.kubevirt_namespace != namespace:
        what = f"kubevirtNamespace is {settings.config.kubevirt_namespace!r}, and KubeVirt is in {namespace!r}"
        remedy = change(settings, "kubevirtNamespace", namespace)
        yield Finding(Code.KUBEVIRT_NAMESPACE, settings.subject, what, remedy)
