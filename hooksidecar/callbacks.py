"""The calls of KubeVirt's hook protocol and their answers, from message to message.

Source: the definitions in `hooksidecar/api`; KubeVirt pkg/hooks/manager.go.
"""

import logging
from collections.abc import Callable, Mapping

import grpc

from dra.errors import DravirtError, Failed
from hooksidecar.attachment import Attachment
from hooksidecar.wire import decode, encode

Message = Mapping[int, bytes]
"""The fields of a message by number."""
Callback = Callable[[Message, grpc.ServicerContext], bytes]

CALLBACKS = {
    "v1alpha3": ("OnDefineDomain", "PreCloudInitIso", "Shutdown"),
    "v1alpha2": ("OnDefineDomain", "PreCloudInitIso"),
    "v1alpha1": ("OnDefineDomain",),
}
"""The versions of the protocol, newest first, and the callbacks of each. All mean the same by them."""

_MAX_TEXT = 2600
"""Characters of a status text. Headers beyond 8 KiB are dropped, and each of them may take three bytes there."""

_log = logging.getLogger(__name__)


def handlers(attachment: Attachment) -> list[grpc.GenericRpcHandler]:
    """Return what a server needs to answer all calls of all versions."""
    callbacks: dict[str, Callback] = {
        "OnDefineDomain": _on_define_domain(attachment),
        "PreCloudInitIso": _pre_cloud_init_iso,
        "Shutdown": _shutdown,
    }
    services = [_service("info.Info", {"Info": _info})]
    services += [
        _service(f"{version}.Callbacks", {name: callbacks[name] for name in names})
        for version, names in CALLBACKS.items()
    ]
    return services


def _service(name: str, methods: Mapping[str, Callback]) -> grpc.GenericRpcHandler:
    unary = {
        method: grpc.unary_unary_rpc_method_handler(callback, request_deserializer=decode)
        for method, callback in methods.items()
    }
    return grpc.method_handlers_generic_handler(f"kubevirt.hooks.{name}", unary)


# InfoResult and HookPoint. No Shutdown: the kubelet ends a native sidecar, and starts one again that ends by itself. No
# PreCloudInitIso: virt-launcher asks its first subscriber only.
_INFO = encode(
    [
        (1, b"dravirt"),
        (3, encode([(1, b"OnDefineDomain")])),
        *((4, version.encode()) for version in CALLBACKS),
    ]
)


def _info(_request: Message, _context: grpc.ServicerContext) -> bytes:
    """Say what we are, from memory: virt-launcher waits 1 s for it, then panics."""
    return _INFO


def _on_define_domain(attachment: Attachment) -> Callback:
    def on_define_domain(request: Message, context: grpc.ServicerContext) -> bytes:
        """Answer with the domain that has the devices in it, or with a status that says why not."""
        try:
            return encode([(1, attachment.define(request.get(1, b""), request.get(2, b"")))])
        except DravirtError as error:
            code = grpc.StatusCode.UNAVAILABLE if isinstance(error, Failed) else grpc.StatusCode.FAILED_PRECONDITION
            details = f"dravirt: {_status_text(error.message)} (reason: {error.reason})"
            _log.error("OnDefineDomain refused: %s", error.message, extra={"reason": error.reason})
        except Exception:  # noqa: BLE001 (the outermost loop: one call must not say less than why, nor end the next)
            code, details = grpc.StatusCode.INTERNAL, "dravirt: internal error, see the log of container dravirt-hook"
            _log.exception("OnDefineDomain failed")
        context.abort(code, details)
        raise AssertionError("abort raises")

    return on_define_domain


def _pre_cloud_init_iso(request: Message, _context: grpc.ServicerContext) -> bytes:
    """Answer with what came: we do not subscribe, but who asks shall not lose data."""
    return encode([(number, request.get(number, b"")) for number in (1, 3)])


def _shutdown(_request: Message, _context: grpc.ServicerContext) -> bytes:
    """Answer, and stay: see above."""
    return b""


def _status_text(text: str) -> str:
    """Return `text` as a status can carry it: in ASCII, on one line and not too long."""
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())[:_MAX_TEXT]
