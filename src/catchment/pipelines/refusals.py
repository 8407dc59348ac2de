"""What a pipeline may not do because of what is there already, whichever command asks for it."""

from __future__ import annotations

from catchment.client.errors import ClientError


class Refusal(ClientError):
    """The state in the checkpoints, or what a store or a lake holds, is not of this pipeline as it is written: no repetition helps."""
