"""The header by which a request names its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


def authorization_of(request: web.BaseRequest) -> str:
    """The header `Authorization`; empty if there is none.

    Bytes that are not UTF-8, which aiohttp hands on as surrogates, become question marks: what
    reads the text may encode it.
    """
    return request.headers.get("Authorization", "").encode("utf-8", "replace").decode()
