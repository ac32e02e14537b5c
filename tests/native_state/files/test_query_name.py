"""A query without a name has that of its checkpoint's folder."""

from __future__ import annotations

import pytest

from queryable_state.server.native_state.files.query_name import query_name


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/shared/checkpoints/orders", "orders"),
        ("/shared/checkpoints/orders/", "orders"),
        ("/shared/orders/checkpoint", "orders"),
        ("/shared/orders/_checkpoint/", "orders"),
        ("/shared/orders/checkpoints//", "orders"),
        ("/shared/all orders", "all orders"),
        ("file:/shared/orders", "orders"),
        ("file:///shared/orders/checkpoint", "orders"),
        ("s3a://bucket/orders/checkpoint", "orders"),
        ("s3a://bucket/checkpoint", "bucket"),
        ("file:/checkpoint", "checkpoint"),
        ("/checkpoint", "checkpoint"),
        ("/", ""),
    ],
)
def test_the_name_is_that_of_the_last_folder_which_has_one(uri: str, name: str) -> None:
    assert query_name(uri) == name
