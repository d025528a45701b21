"""The webhook's server as a process of its own, over real TLS with a throw-away authority."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx
from support.waiting import whole_lines

from cli.throwaway import Certificate

_START_SECONDS = 30
_STOP_SECONDS = 30


@dataclass
class WebhookServer:
    """`dravirt webhook` with `arguments`, on a free port of loopback; its log goes to a file in `folder`."""

    arguments: list[str]
    folder: Path
    certificate: Certificate
    process: subprocess.Popen[bytes] = field(init=False)
    program: ClassVar[tuple[str, ...]] = ("-m", "cli")

    def __post_init__(self) -> None:
        tls = ["--tls-cert", self.certificate.certificate, "--tls-key", self.certificate.key]
        command = [sys.executable, *self.program, "webhook", "--port", "0", "--health-port", "0", *tls]
        command += ["--host", "127.0.0.1", *self.arguments]
        with self.log_file.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=dict(os.environ))

    @property
    def log_file(self) -> Path:
        return self.folder / "webhook.log"

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log, each of which must be JSON."""
        return [json.loads(line) for line in whole_lines(self.log_file.read_text())]

    @property
    def port(self) -> int:
        """The port, as soon as the server says so."""
        return self._said("listening on ")

    @property
    def health_port(self) -> int:
        """The port for health and metrics, likewise."""
        return self._said("health and metrics at ")

    def _said(self, words: str) -> int:
        """Return the port that the log names after `words`."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in whole_lines(self.log_file.read_text()):
                if words in line:
                    return int(json.loads(line)["message"].rpartition(":")[2])
            time.sleep(0.02)
        raise AssertionError(f"not serving, exit code {self.process.poll()}:\n{self.log_file.read_text()}")

    @property
    def tls(self) -> ssl.SSLContext:
        """A client's context that trusts the authority."""
        return ssl.create_default_context(cafile=str(self.certificate.authority))

    def client(self) -> httpx.Client:
        """Return a client with its own connections."""
        url = f"https://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, verify=self.tls, trust_env=False, timeout=20)

    def health(self, path: str) -> httpx.Response:
        """Ask at the health port."""
        return httpx.get(f"http://127.0.0.1:{self.health_port}{path}", trust_env=False, timeout=20)

    def rss(self) -> int:
        """Return the resident memory in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code."""
        return self.process.wait(_STOP_SECONDS)

    def end(self) -> None:
        """End the process if it still runs, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        sys.stderr.write(self.log_file.read_text()[-20_000:])  # shown by pytest where the test failed
