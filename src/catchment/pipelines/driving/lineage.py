"""OpenLineage: run events with the datasets that each query reads and writes, written to a file or sent to a URL.

Events wait in a bounded queue for a thread of their own, so a slow receiver never delays the pipeline. When the queue is full,
events are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Final, Literal

from catchment.pipelines.declaration.addresses import without_credentials
from catchment.pipelines.driving.datasets import Dataset, inputs_of, outputs_of
from catchment.pipelines.driving.supervision.run_file import now_text
from catchment.pipelines.graph import Graph

_logger = logging.getLogger(__name__)

_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ERROR_SCHEMA: Final = "https://openlineage.io/spec/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
_PRODUCER: Final = "https://pypi.org/project/catchment"
_NAMESPACE: Final = "catchment"
_QUEUE: Final = 1000
_POST_S: Final = 5.0
_CLOSE_S: Final = 10.0

EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]


class Lineage:
    """Emits the run events of one run's queries."""

    def __init__(self, target: str, graph: Graph, servers: str, folder: Path) -> None:
        """`target` is a file, to which a line is added for each event, or a URL that takes them by POST.

        Paths of the pipeline are relative to `folder`.
        """
        self._target = target
        self._graph = graph
        self._servers = servers
        self._folder = folder
        self._runs = {name: str(uuid.uuid4()) for level in graph.order for name in level}
        self._open: set[str] = set()
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_QUEUE)
        self.lost = 0
        """Events that were not delivered."""
        self._thread = threading.Thread(target=self._deliver, name="lineage", daemon=True)
        self._thread.start()

    def started(self, query: str) -> None:
        self._open.add(query)
        self._emit("START", query)

    def ended(self, kind: EventType, error: str | None = None) -> None:
        """All queries that were started, and not ended yet, have ended."""
        for query in sorted(self._open):
            self._emit(kind, query, error)
        self._open.clear()

    def close(self) -> None:
        """Wait for the queued events, but not for long."""
        try:
            self._queue.put(None, timeout=_CLOSE_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_S)

    def event(self, kind: EventType, query: str, error: str | None = None) -> dict[str, Any]:
        """A run event in OpenLineage's format."""
        facets = {} if error is None else {"errorMessage": _error_facet(error)}
        return {
            "eventType": kind,
            "eventTime": now_text(),
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA,
            "run": {"runId": self._runs[query], "facets": facets},
            "job": {"namespace": _NAMESPACE, "name": f"{self._graph.specification.pipeline}.{query}"},
            "inputs": [_dataset(one) for one in inputs_of(self._graph, query, self._servers)],
            "outputs": [_dataset(one) for one in outputs_of(self._graph, query, self._servers, self._folder)],
        }

    def _emit(self, kind: EventType, query: str, error: str | None = None) -> None:
        try:
            self._queue.put_nowait(self.event(kind, query, error))
        except queue.Full:
            self.lost += 1

    def _deliver(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._send(event)
            except OSError as error:
                self.lost += 1
                _logger.warning(
                    "lineage: an event was not delivered to %s: %s", without_credentials(self._target), error
                )

    def _send(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=False)
        if not self._target.startswith(("http://", "https://")):
            with Path(self._target).open("a", encoding="utf-8") as file:
                file.write(text + "\n")
            return
        request = urllib.request.Request(
            self._target, text.encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=_POST_S):
            pass


def _dataset(dataset: Dataset) -> dict[str, str]:
    return {"namespace": dataset.namespace, "name": dataset.name}


def _error_facet(error: str) -> dict[str, str]:
    return {"_producer": _PRODUCER, "_schemaURL": _ERROR_SCHEMA, "message": error, "programmingLanguage": "python"}
