"""Which brokers a pipeline talks to: those of the command, of the file, of the environment, or the ones on this machine."""

from __future__ import annotations

import os
from typing import Final

from catchment.pipelines.specification import PipelineSpecification

VARIABLE: Final = "CATCHMENT_BOOTSTRAP_SERVERS"
_DEFAULT: Final = "127.0.0.1:9092"


def brokers(specification: PipelineSpecification, given: str | None = None) -> str:
    """Addresses as clients take them; the first that is given counts."""
    return given or specification.servers or os.environ.get(VARIABLE) or _DEFAULT
