"""The gRPC server that virt-launcher calls, on the sockets where its releases look for it.

Source: KubeVirt pkg/hooks/manager.go.
"""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from dra.contract import SOCKET_NAME
from dra.errors import Failed
from dra.reasons import Reason
from hooksidecar.attachment import Attachment
from hooksidecar.callbacks import handlers

# virt-launcher calls one after the other. The second worker answers Info while the first is looking for devices.
_WORKERS = 2
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_MAX_SOCKET_PATH = 107  # bytes of sockaddr_un.sun_path less its end

_log = logging.getLogger(__name__)


class HookServer:
    """Serves the hook protocol in all its versions.

    KubeVirt up to 1.5 dials each entry of `folder`, from 1.6 on each entry of its sub-folders, so there is a socket in
    both places. A socket file appears a moment before the server answers; virt-launcher takes that for not ready and
    dials again, so no trick is needed to hide it.
    """

    def __init__(self, attachment: Attachment, folder: Path) -> None:
        self._folder = folder / Path(SOCKET_NAME).stem
        self._sockets = (folder / SOCKET_NAME, self._folder / SOCKET_NAME)
        workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="hook")
        self._server = grpc.server(workers, handlers(attachment), options=_OPTIONS)

    def start(self) -> None:
        """Bind the sockets and serve. Raises Failed where they cannot be made."""
        # compute runs under uid 107, but perhaps with another group: it connects where it may write to the socket.
        os.umask(0)
        self.remove_sockets()
        with _failing(self._folder):
            self._folder.mkdir(exist_ok=True)
        for socket in self._sockets:
            with _failing(socket):
                self._bind(socket)
        self._server.start()
        _log.info("serving on %s", " and ".join(map(str, self._sockets)))

    def stop(self, grace: float) -> None:
        """Take no more calls, let the running ones end within `grace` seconds, and remove the sockets."""
        self._server.stop(grace).wait()
        self.remove_sockets()

    def remove_sockets(self) -> None:
        """Remove the sockets, whoever made them. Raises Failed where something else is in the way."""
        for socket in self._sockets:
            with _failing(socket):
                socket.unlink(missing_ok=True)

    def _bind(self, socket: Path) -> None:
        if len(os.fsencode(socket)) > _MAX_SOCKET_PATH:
            raise OSError(f"the path is longer than {_MAX_SOCKET_PATH} bytes")
        self._server.add_insecure_port(f"unix:{socket}")


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Failed(Reason.UNWRITABLE, f"cannot serve on {path}: {error}") from error
