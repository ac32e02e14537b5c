"""Settings of a job that reach a server as text."""

from __future__ import annotations

import pytest

from queryable_state.server.json_settings import json_settings
from queryable_state.wire.errors import InvalidRequestError


def test_settings_are_an_object_and_an_empty_text_is_none() -> None:
    assert json_settings('{"a": 1}', "the settings") == {"a": 1}
    assert json_settings("", "the settings") == {}


@pytest.mark.parametrize("text", ["[1]", "7", '"secret', "null", "{"])
def test_what_is_no_object_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^the settings: not (valid|a) JSON") as refused:
        json_settings(text, "the settings")
    assert "secret" not in refused.value.message
