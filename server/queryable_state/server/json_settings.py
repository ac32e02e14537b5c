"""Settings that come as a JSON object."""

from __future__ import annotations

import json
from typing import Any

from queryable_state.wire.errors import InvalidRequestError


def json_settings(text: str, what: str) -> dict[str, Any]:
    """The settings of a text, none of an empty one; `InvalidRequestError` says what is no object.

    The text itself is not repeated: it may hold keys of a storage.
    """
    try:
        settings = json.loads(text or "{}")
    except ValueError as problem:
        raise InvalidRequestError(f"{what}: no JSON: {problem}") from problem
    if not isinstance(settings, dict):
        raise InvalidRequestError(
            f"{what}: no JSON object: name each setting, as in " + '{"name": "value"}'
        )
    return settings
