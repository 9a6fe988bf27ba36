"""Counters of requests, and figures of the service that are read when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

Figures = Mapping[str, tuple[str, Mapping[tuple[tuple[str, str], ...], float]]]
"""By the metric's name: what it is, and its values by their labels."""


class Metrics:
    """The metrics of one application.

    Args:
        figures: reads the service's present figures, in a thread.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "recon4d_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "recon4d_request_seconds", "Until the answer began.", ("route",), registry=self._registry
        )
        self._received = Counter("recon4d_received_bytes", "Bytes of bodies received.", registry=self._registry)
        self._registry.register(_Figures(figures))

    def answered(self, method: str, route: str, status: int, seconds: float, received: int) -> None:
        """Counts one request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._received.inc(received)

    def text(self) -> bytes:
        """In the exposition format of Prometheus."""
        return generate_latest(self._registry)


class _Figures(Collector):
    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._read = figures

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, (help, values) in self._read().items():
            labels = [label for label, _ in next(iter(values), ())]
            family = GaugeMetricFamily(name, help, labels=labels)
            for key, value in values.items():
                family.add_metric([text for _, text in key], value)
            yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())  # Else registering would read the database.
