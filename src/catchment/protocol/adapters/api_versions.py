"""ApiVersions: before version 4 clients fail on a feature whose minimum version is 0, so it is omitted (KIP-584)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.api_versions.v4.response import ApiVersionsResponse

_FIRST_VERSION_WITH_FEATURES = 3
_FIRST_VERSION_WITH_LOWEST_ZERO = 4


def lower_response(response: ApiVersionsResponse, version_class: Any) -> Any:
    if not _FIRST_VERSION_WITH_FEATURES <= version_class.__version__ < _FIRST_VERSION_WITH_LOWEST_ZERO:
        return response
    features = tuple([feature for feature in response.supported_features if feature.min_version > 0])
    return replace(response, supported_features=features)
