"""Measure the sidecar as a process: its start, its memory, and OnDefineDomain by size of the domain and by devices.

    PYTHONPATH=tests python bench/sidecar.py
    PYTHONPATH=tests python bench/sidecar.py --calls 1000 --starts 30

The start is from exec to the first answer of Info, as virt-launcher asks it. A call is timed by the client and holds
everything: gRPC, the look at the node, the edit. The devices are the virtual functions of one full board, the dearest
kind to look at. What else the machine does only adds, so the best of several rounds counts. Linear growth shows as a
time per KiB and per device that does not grow. Ends with 1 where an aim is missed.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.claimed import allocated, entry, template_folder, write_metadata
from support.domains import GRAPHICS, placeholder, small_domain
from support.hosttree import NodeTree
from support.sidecars import Hook, Pod, launcher_pod

SIZES = (2, 16, 256)
"""KiB."""
COUNTS = (1, 8, 32)
MOST_START, MOST_MEMORY, MOST_P99 = 0.3, 45, 10.0
"""Seconds, MiB, ms for one device in a domain of 16 KiB."""
MOST_GROWTH = 2.0
"""How much more a further KiB may cost in a large domain than in a small one, a further device among many than among
few. With a cost that grows by the square it would be 14 and 4 times as much.
"""
CALLS_BEFORE_MEMORY = 300
ROUNDS = 10

BOARD = "0000:3d:00.0"
FUNCTIONS = [f"0000:3d:{4 + number // 8:02x}.{number % 8}" for number in range(max(COUNTS))]
DISK = (
    '<disk type="file" device="disk"><driver name="qemu" type="raw" cache="none"/><source file="/var/run/disk{0}.img"/>'
    '<target dev="vd{0}" bus="virtio"/><alias name="ua-disk{0}"/></disk>'
)


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of a call: the least of all rounds, and those of the best round."""

    least: float
    p50: float
    p99: float

    def __str__(self) -> str:
        return f"min {self.least:6.2f}   p50 {self.p50:6.2f}   p99 {self.p99:6.2f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument("--calls", type=int, default=100, help="per round (default: %(default)s)")
    args = parser.parse_args()
    say(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    verdicts = [
        measure_start(args.starts),
        measure_memory(),
        *measure_sizes(args.calls),
        measure_devices(args.calls),
    ]
    say("\nall aims are met" if all(verdicts) else "\nan aim is missed")
    return 0 if all(verdicts) else 1


def measure_start(starts: int) -> bool:
    seconds, cpu = [], []
    for _ in range(starts):
        with launcher_pod() as pod:
            environment = allocate(pod, 1)
            started = time.perf_counter()
            sidecar = pod.start(environment, ready=False)
            while not sidecar.sockets[1].is_socket():
                time.sleep(0.0005)
            sidecar.hook().info(timeout=10)
            seconds.append(time.perf_counter() - started)
            cpu.append(cpu_seconds(sidecar.process.pid))
    return aim(
        f"start to first Info   min {min(seconds):.3f}   median {statistics.median(seconds):.3f} s"
        f"   (processor time: min {min(cpu):.2f} s)",
        min(seconds),
        MOST_START,
    )


def measure_memory() -> bool:
    with launcher_pod() as pod:
        sidecar = pod.start(allocate(pod, 1))
        times(sidecar.hook(), domain(1, 16), CALLS_BEFORE_MEMORY // ROUNDS)
        mib = sidecar.status("VmRSS") / 1024
    return aim(f"memory after {CALLS_BEFORE_MEMORY} calls   {mib:.1f} MiB", mib, MOST_MEMORY)


def measure_sizes(calls: int) -> list[bool]:
    say("\nOnDefineDomain, one device")
    with launcher_pod() as pod:
        hook = pod.start(allocate(pod, 1)).hook()
        found = {size: times(hook, domain(1, size), calls) for size in SIZES}
    for size, measured in found.items():
        say(f"  {size:>4} KiB   {measured}   {measured.least / size * 1000:7.0f} us per KiB")
    small, middle, large = SIZES
    growth = further(found, middle, large) / further(found, small, middle)
    return [
        aim("  p99 of 16 KiB", found[16].p99, MOST_P99),
        aim(f"  a further KiB costs {growth:.2f} times as much in large domains as in small ones", growth, MOST_GROWTH),
    ]


def measure_devices(calls: int) -> bool:
    say("\nOnDefineDomain, 16 KiB")
    found: dict[int, Times] = {}
    for count in COUNTS:
        with launcher_pod() as pod:
            found[count] = times(pod.start(allocate(pod, count)).hook(), domain(count, 16), calls)
        say(f"  {count:>2} devices   {found[count]}   {found[count].least / count * 1000:7.0f} us per device")
    one, some, many = COUNTS
    growth = further(found, some, many) / further(found, one, some)
    return aim(f"  a further device costs {growth:.2f} times as much among many as among few", growth, MOST_GROWTH)


def further(found: dict[int, Times], few: int, many: int) -> float:
    """Return what one KiB or one device more costs, from `few` to `many`."""
    return max(found[many].least - found[few].least, 1e-6) / (many - few)


def times(hook: Hook, given: bytes, calls: int) -> Times:
    rounds = [sorted(milliseconds(lambda: hook.define(given)) for _ in range(calls)) for _ in range(ROUNDS)]
    best = min(rounds, key=lambda measured: percentile(measured, 99))
    return Times(min(measured[0] for measured in rounds), percentile(best, 50), percentile(best, 99))


def milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def percentile(measured: list[float], percent: int) -> float:
    return measured[min(len(measured) - 1, len(measured) * percent // 100)]


def allocate(pod: Pod, count: int) -> dict[str, str]:
    """Lay out a full board, allocate some of its functions, and return the environment of the sidecar."""
    full_board(pod.tree)
    devices = [allocated(f"vf{number:02}", pciBusID=address) for number, address in enumerate(FUNCTIONS[:count])]
    write_metadata(template_folder(pod.metadata, "vgpu", pod_claim="dravirt-gpu"), *devices)
    return pod.environment(entry("gpu", request="vgpu", count=count))


def full_board(tree: NodeTree) -> None:
    board = {"device": "0x26b9", "driver": "nvidia"}
    tree.pci(BOARD, **board, group=99, totalvfs=len(FUNCTIONS), virtfns=dict(enumerate(FUNCTIONS)))
    for number, address in enumerate(FUNCTIONS):
        folder = tree.pci(address, **board, group=100 + number, vfio=number, physfn=BOARD)
        tree.vgpu(folder, current=1155, creatable="ID    : vGPU Name")
        tree.nodes(100 + number)


def domain(count: int, kib: int) -> bytes:
    """Return a domain with placeholders for `count` devices, filled up with disks to `kib` KiB."""
    names = ["gpu"] if count == 1 else [f"gpu-{number}" for number in range(count)]
    devices = [placeholder(name, number) for number, name in enumerate(names)]
    base = small_domain(GRAPHICS, *devices)
    disks: list[str] = []
    while len(base) + sum(map(len, disks)) < kib * 1024:
        disks.append(DISK.format(len(disks)))
    return base.replace(b"</devices>", "".join(disks).encode() + b"</devices>")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def aim(text: str, value: float, most: float) -> bool:
    say(f"{text}   {value:.3g} of at most {most:g}: {'met' if value <= most else 'MISSED'}")
    return value <= most


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
