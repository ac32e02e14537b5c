"""Parser of settings in a JSON object."""

from __future__ import annotations

import json
from typing import Any

from queryable_state.wire.errors import InvalidRequestError


def json_settings(text: str, what: str) -> dict[str, Any]:
    """Parses a JSON object; no settings if the text is empty.

    Raises `InvalidRequestError` for other text, without quoting it: it may hold access keys.
    """
    try:
        settings = json.loads(text or "{}")
    except ValueError as problem:
        raise InvalidRequestError(f"{what}: not valid JSON: {problem}") from problem
    if not isinstance(settings, dict):
        raise InvalidRequestError(
            f"{what}: not a JSON object: name each setting, as in " + '{"name": "value"}'
        )
    return settings
