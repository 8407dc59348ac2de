"""Which brokers a pipeline talks to: those of the command, of the file, of the environment, or the ones on this machine; and how."""

from __future__ import annotations

import os
from typing import Final

from catchment.pipelines.secrets import with_variables
from catchment.pipelines.specification import PipelineSpecification

VARIABLE: Final = "CATCHMENT_BOOTSTRAP_SERVERS"
_DEFAULT: Final = "127.0.0.1:9092"
LARGEST_RECORD_BYTES: Final = 16 * 1024 * 1024
"""For every topic that a pipeline makes and everything that it writes: a record may grow on its way between queries. What is set
aside has headers of ours, an alert has its row inside, and JSON takes more room than Avro."""


def brokers(specification: PipelineSpecification, given: str | None = None) -> str:
    """Addresses as clients take them; the first that is given counts."""
    declared = with_variables(specification.servers) if specification.servers else None
    return given or declared or os.environ.get(VARIABLE) or _DEFAULT


def broker_settings(specification: PipelineSpecification) -> dict[str, str]:
    """The settings of the connection to them."""
    return {name: with_variables(one) for name, one in specification.kafka.items()}
