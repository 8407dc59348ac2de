"""JoinGroup: without a protocol the response has null since version 7, and an empty string before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.join_group.v9.response import JoinGroupResponse

_FIRST_VERSION_WITH_NULL = 7


def lower_response(response: JoinGroupResponse, version_class: Any) -> Any:
    if version_class.__version__ < _FIRST_VERSION_WITH_NULL and response.protocol_name is None:
        return replace(response, protocol_name="")
    return response
