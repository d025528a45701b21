"""The metrics: what was decided and how quickly, and what an on-call engineer must know before users do.

Label values come from this code, never from a request: their number is bounded. docs/metrics.md describes each metric.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from fastapi import Response
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dra.version import __version__
from webhook.certificates import CertificateNumbers
from webhook.configfile import ConfigFile
from webhook.endpoint import Event
from webhook.readiness import Readiness

Record = Callable[[Event], None]
_ADMISSION_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ALLOCATION_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self, *paths: str) -> None:
        """Count admissions at `paths`."""
        disable_created_metrics()  # type: ignore[no-untyped-call] # (they double the series and are of use to nobody here)
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Info("dravirt_build", "The version that runs", registry=registry).info({"version": __version__})
        self._admissions = AdmissionCounts(paths)
        registry.register(self._admissions)
        self._answers = Counter(
            "dravirt_allocation_answers_total",
            "Answers of the allocation service",
            ["outcome", "reason"],
            registry=registry,
        )
        self._answer_seconds = Histogram(
            "dravirt_allocation_duration_seconds",
            "From the request of a sidecar to its answer",
            buckets=_ALLOCATION_SECONDS,
            registry=registry,
        )

    def admissions(self, log: Record) -> Record:
        """Return what counts an admission and tells `log`."""
        add = self._admissions.add

        def record(event: Event) -> None:
            add(event["path"], event["decision"], event["reason"], event["ms"] / 1000)
            log(event)

        return record

    def allocations(self, log: Record) -> Record:
        """Return what counts an answer of the allocation service and tells `log`."""

        def record(event: Event) -> None:
            self._answers.labels(event["outcome"], event.get("reason", "")).inc()
            self._answer_seconds.observe(event["ms"] / 1000)
            log(event)

        return record

    def exposition(self) -> Response:
        """Return the metrics of the moment as Prometheus reads them."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class AdmissionCounts(Collector):
    """How many admissions there were, and how long they took.

    They are added in the event loop alone, so that no lock is needed: a counter and a histogram of prometheus_client
    take a tenth of the time of an admission.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Count admissions at `paths`, whose durations are there from the beginning."""
        self._counts: dict[tuple[str, str, str], int] = {}
        self._buckets = {path: [0] * (len(_ADMISSION_SECONDS) + 1) for path in paths}
        self._seconds = dict.fromkeys(self._buckets, 0.0)

    def add(self, path: str, decision: str, reason: str, seconds: float) -> None:
        """Count one."""
        key = (path, decision, reason)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._buckets[path][bisect_left(_ADMISSION_SECONDS, seconds)] += 1
        self._seconds[path] += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted until now."""
        labels = ["path", "decision", "reason"]
        counts = CounterMetricFamily("dravirt_admissions", "Admission reviews answered", labels=labels)
        for key, count in list(self._counts.items()):
            counts.add_metric(key, count)
        yield counts
        text = "From the body of a review to its answer"
        durations = HistogramMetricFamily("dravirt_admission_duration_seconds", text, labels=["path"])
        bounds = [*map(floatToGoString, _ADMISSION_SECONDS), "+Inf"]
        for path, buckets in self._buckets.items():
            durations.add_metric([path], list(zip(bounds, accumulate(buckets), strict=True)), self._seconds[path])
        yield durations


class StateCollector(Collector):
    """What is not counted but so at the moment when somebody asks."""

    def __init__(
        self, readiness: Readiness, configuration: ConfigFile, certificates: CertificateNumbers | None
    ) -> None:
        self._readiness, self._configuration, self._certificates = readiness, configuration, certificates

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the moment."""
        ready = ((name, float(each.ready)) for name, each in self._readiness.conditions().items())
        yield _gauge("dravirt_ready", "Whether a condition of /readyz is met", "condition", ready)
        yield from self._of_configuration()
        if self._certificates is not None:
            yield from _of_certificates(self._certificates)

    def _of_configuration(self) -> Iterator[Metric]:
        file, config = self._configuration, self._configuration.current()
        info = GaugeMetricFamily(
            "dravirt_config_info", "The configuration in use", labels=["mode", "allocation_service"]
        )
        info.add_metric([config.mode, "off" if config.allocation_service is None else "on"], 1)
        yield info
        name = "dravirt_config_last_reload"
        text = "Whether the configuration file as it is now is in use"
        yield GaugeMetricFamily(f"{name}_successful", text, value=float(file.error is None))
        text = "When the configuration in use was read"
        yield GaugeMetricFamily(f"{name}_success_timestamp_seconds", text, value=file.read_at)


def _of_certificates(numbers: CertificateNumbers) -> Iterator[Metric]:
    name = "dravirt_certificate"
    text = "When the certificate in use and its authority end"
    yield _gauge(f"{name}_expiry_timestamp_seconds", text, "certificate", numbers.ends.items())
    yield CounterMetricFamily(f"{name}_reloads_total", "Certificates put to use", value=numbers.reloads)
    text = "Failed looks at the source of certificates, and certificates that cannot be used"
    yield CounterMetricFamily(f"{name}_failures_total", text, value=numbers.failures)


def _gauge(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for of, value in values:
        gauge.add_metric([of], value)
    return gauge
