"""Measure the webhook: admissions per second and core, latency and memory, beside what it could be at best.

    python bench/admission.py                # an example's pod; where DRAVIRT_CORPUS is set, a live API server's review
    python bench/admission.py --seconds 10 --rounds 5

The server under test has one core, the load generator the other; HTTPS, connections kept open. Each round measures
each server in turn, so that whatever else the machine does meets all of them; the best round of each counts.
  limit    a bare ASGI application in dravirt's own server: it reads the body, answers a constant and logs nothing
  uvicorn  that application under `uvicorn` as it comes: with an access log, as dravirt logs each admission
  dravirt  `dravirt webhook`, /mutate/pod: the whole injection, a line of log and the metrics
  go       the least typed webhook in Go (bench/gowebhook), where Go is installed

It ends with 1 where an aim is missed. On a machine that does other work, rates say little: the ratios of processor time
per admission, printed beside them, hold better.
"""

import argparse
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from admission_load import Load, run_load

from cli.throwaway import Certificate, issue

BENCH = Path(__file__).parent
ROOT = BENCH.parent
PATH = "/mutate/pod?timeout=5s"
SERVER_CORE, LOAD_CORE = 0, 1
CONNECTIONS = 16
LEAST_OF_LIMIT, LEAST_OF_GO, MOST_MEMORY, MOST_P50, MOST_P99 = 0.6, 1.5, 80, 1.0, 5.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server under test."""

    name: str
    port: int
    process: subprocess.Popen[bytes]

    def memory(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Result:
    """The best round of one server: at full load, and with one connection."""

    full: Load
    single: Load
    cpu: float
    """Microseconds of processor time per request at full load."""
    memory: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement (default: %(default)g)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--review", type=Path, help="an AdmissionReview of a launcher pod, JSON")
    args = parser.parse_args()
    name, body = read_review(args.review)
    if (os.cpu_count() or 1) <= LOAD_CORE:
        sys.exit("two cores are needed, one for the server and one for the load")
    os.sched_setaffinity(0, {LOAD_CORE})
    print(f"{name}: {len(body)} bytes, {CONNECTIONS} connections, best of {args.rounds} rounds of {args.seconds:g} s\n")
    with tempfile.TemporaryDirectory() as folder:
        certificate = issue(Path(folder))
        tls = ssl.create_default_context(cafile=str(certificate.authority))
        results = measure(certificate, tls, body, rounds=args.rounds, seconds=args.seconds)
    return 0 if report(results) else 1


def read_review(file: Path | None) -> tuple[str, bytes]:
    """Return a name and the compact JSON of the review to post."""
    corpus = os.environ.get("DRAVIRT_CORPUS")
    if file is None and corpus:
        file = Path(corpus) / "live" / "pod-create-review.json"
    if file is not None:
        return file.name, json.dumps(json.loads(file.read_bytes()), separators=(",", ":")).encode()
    example = ROOT / "examples" / "mig-backed-mdev" / "launcher-pod.yaml"
    pod = yaml.load(example.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    request = {
        "uid": "413168c2-2fa5-4a67-8ee7-5ad8429c7459",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "userInfo": {"username": "system:serviceaccount:kubevirt:kubevirt-controller"},
        "object": pod,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return example.name, json.dumps(review, separators=(",", ":")).encode()


def measure(
    certificate: Certificate, tls: ssl.SSLContext, body: bytes, *, rounds: int, seconds: float
) -> dict[str, Result]:
    """Return the results by the name of the server."""
    files = [str(certificate.certificate), str(certificate.key)]
    webhook = ["webhook", "--host", "127.0.0.1", "--health-port", "0", "--drain-seconds", "0"]
    webhook += ["--tls-cert", files[0], "--tls-key", files[1]]
    commands = {
        "limit": lambda port: [sys.executable, str(BENCH / "admission_limit.py"), str(port), *files],
        "uvicorn": lambda port: [
            *(sys.executable, "-m", "uvicorn", "admission_limit:app", "--app-dir", str(BENCH), "--port", str(port)),
            *("--ssl-certfile", files[0], "--ssl-keyfile", files[1]),
        ],
        "dravirt": lambda port: [sys.executable, "-m", "cli", *webhook, "--port", str(port)],
    }
    if binary := build_go():
        commands["go"] = lambda port: [str(binary), f"127.0.0.1:{port}", *files]
    results: dict[str, Result] = {}
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(started(name, command(18440 + index), 18440 + index))
            for index, (name, command) in enumerate(commands.items())
        ]
        for number in range(rounds):
            for server in servers:
                print(f"round {number + 1}: {server.name} …", file=sys.stderr)
                result = measure_once(server, tls, body, seconds)
                results[server.name] = better(result, results.get(server.name, result))
    return results


def measure_once(server: Server, tls: ssl.SSLContext, body: bytes, seconds: float) -> Result:
    cpu = server.cpu()
    full = run_load(server.port, PATH, body, tls, connections=CONNECTIONS, seconds=seconds)
    cpu = (server.cpu() - cpu) / len(full.latencies) * 1e6
    single = run_load(server.port, PATH, body, tls, connections=1, seconds=seconds / 2)
    return Result(full, single, cpu, server.memory())


def better(one: Result, other: Result) -> Result:
    """Return the best of two rounds, figure by figure."""
    return Result(
        full=max(one.full, other.full, key=lambda load: load.rate),
        single=min(one.single, other.single, key=lambda load: load.percentile(0.5)),
        cpu=min(one.cpu, other.cpu),
        memory=max(one.memory, other.memory),
    )


@contextlib.contextmanager
def started(name: str, command: list[str], port: int) -> Iterator[Server]:
    """Run a server on its core until the block ends; its log goes to a file that is shown where it does not start."""
    with tempfile.TemporaryFile() as log:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        os.sched_setaffinity(0, {SERVER_CORE})  # inherited
        # (uvicorn writes its access log to stdout: a line costs each server the same)
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        os.sched_setaffinity(0, {LOAD_CORE})
        try:
            deadline = time.monotonic() + 30
            while not accepts(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    sys.exit(f"{name} does not serve:\n{log.read().decode(errors='replace')}")
                time.sleep(0.05)
            yield Server(name, port, process)
        finally:
            process.terminate()
            process.wait()


def accepts(port: int) -> bool:
    import socket

    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def build_go() -> Path | None:
    """Return the Go webhook, built into the user's cache; None where there is no Go."""
    if not shutil.which("go"):
        print("no Go here: measured without the Go webhook", file=sys.stderr)
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dravirt" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    binary = cache / "gowebhook"
    print("building bench/gowebhook (the first time this fetches k8s.io/api) …", file=sys.stderr)
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=BENCH / "gowebhook", check=True)
    return binary


def report(results: dict[str, Result]) -> bool:
    """Print the table and how far dravirt is from its aims; return whether it meets all."""
    print("at full load                                              one connection")
    print("            per second  CPU us each   p50 ms   p99 ms     p50 ms   p99 ms   RSS MiB")
    for name, each in results.items():
        full, single = ([load.percentile(share) for share in (0.5, 0.99)] for load in (each.full, each.single))
        print(
            f"{name:10}{each.full.rate:12.0f}{each.cpu:13.0f}{full[0]:9.2f}{full[1]:9.2f}"
            f"{single[0]:11.2f}{single[1]:9.2f}{each.memory:10.0f}"
        )
    dravirt = results["dravirt"]
    print("\ndravirt beside            admissions/s   CPU each")
    for name, each in results.items():
        print(f"{name:10}{dravirt.full.rate / each.full.rate:26.2f} x{each.cpu / dravirt.cpu:9.2f} x")
    print()
    rates = {name: dravirt.full.rate / each.full.rate for name, each in results.items()}
    met = [
        aim("x the bare application under uvicorn as it comes", rates["uvicorn"], LEAST_OF_LIMIT, at_least=True),
        aim("ms p50 with one connection", dravirt.single.percentile(0.5), MOST_P50, at_least=False),
        aim("ms p99 with one connection", dravirt.single.percentile(0.99), MOST_P99, at_least=False),
        aim("MiB of memory", dravirt.memory, MOST_MEMORY, at_least=False),
    ]
    if "go" in rates:
        met.append(aim("x the least Go webhook", rates["go"], LEAST_OF_GO, at_least=True))
    return all(met)


def aim(what: str, value: float, bound: float, *, at_least: bool) -> bool:
    """Print and return whether an aim is met."""
    met = value >= bound if at_least else value <= bound
    print(f"{'met   ' if met else 'MISSED'}  {value:.2f} {what}, aim {'>=' if at_least else '<='} {bound:g}")
    return met


if __name__ == "__main__":
    sys.exit(main())
