"""Names as Kubernetes accepts them, checked before they are used in an object or a path."""

import re

from dra.errors import Refused
from dra.reasons import Reason

# Kubernetes apimachinery, pkg/util/validation: IsDNS1123Label, IsDNS1123Subdomain; pkg/apis/resource/validation:
# a fully qualified attribute name is <domain>/<C identifier>.
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253
_MAX_IDENTIFIER = 32
_MAX_ATTRIBUTE_DOMAIN = 63


def is_dns_label(text: str) -> bool:
    """True if `text` is an RFC 1123 label of at most 63 characters."""
    return len(text) <= _MAX_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """True if `text` is an RFC 1123 subdomain of at most 253 characters."""
    return len(text) <= _MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_request_reference(text: str) -> bool:
    """True if `text` names a request of a claim, `main`, or a sub-request, `main/sub`."""
    main, slash, sub = text.partition("/")
    return is_dns_label(main) and (not slash or is_dns_label(sub))


def is_pool_name(text: str) -> bool:
    """True if `text` is the name of a resource pool: DNS subdomains between slashes, at most 253 characters."""
    return len(text) <= _MAX_SUBDOMAIN and all(is_dns_subdomain(part) for part in text.split("/"))


def is_attribute_name(text: str) -> bool:
    """True if `text` is the name of a device attribute, `name` or `domain/name`."""
    domain, slash, name = text.rpartition("/")
    identifier = len(name) <= _MAX_IDENTIFIER and _C_IDENTIFIER.fullmatch(name) is not None
    return identifier and (not slash or (len(domain) <= _MAX_ATTRIBUTE_DOMAIN and is_dns_subdomain(domain)))


def base_request(request: str) -> str:
    """Return the request that `request` belongs to: the part before the slash of `main/sub`.

    Source: k8s.io/dynamic-resource-allocation/resourceclaim, BaseRequestRef.
    """
    return request.partition("/")[0]


def require_dns_label(text: str, path: str, reason: Reason) -> str:
    """Return `text`, or refuse it at `path`."""
    if not is_dns_label(text):
        raise Refused(reason, f"must be a DNS label (a-z, 0-9, -; at most 63 characters), got {text[:80]!a}", path=path)
    return text


def require_dns_subdomain(text: str, path: str, reason: Reason) -> str:
    """Return `text`, or refuse it at `path`."""
    if not is_dns_subdomain(text):
        raise Refused(reason, f"must be a Kubernetes object name (DNS subdomain), got {text[:80]!a}", path=path)
    return text


def require_pool(text: str, path: str, reason: Reason) -> str:
    """Return `text`, or refuse it at `path`."""
    if not is_pool_name(text):
        raise Refused(
            reason, f"must be the name of a pool (DNS subdomains between slashes), got {text[:80]!a}", path=path
        )
    return text


def require_request(text: str, path: str, reason: Reason) -> str:
    """Return `text`, or refuse it at `path`."""
    if not is_request_reference(text):
        raise Refused(reason, f"must be the name of a request (`main` or `main/sub`), got {text[:80]!a}", path=path)
    return text
