"""Functions of the page's modules, called in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page
    from tests.page.recorded_server import RecordedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]


async def called(page: Page, server: RecordedServer, module: str, code: str) -> Any:
    """The value of an expression in which `m` is a module of the page."""
    await page.goto(server.address)
    return await page.evaluate(
        f"async () => {{ const m = await import('/js/{module}'); return {code}; }}"
    )


async def test_integers_stay_exact_from_text_to_text(page: Page, server: RecordedServer) -> None:
    text = '{"big":9007199254740993,"small":7,"part":1.5,"negative":-9223372036854775808}'
    assert await called(page, server, "lib/json.js", f"m.toJson(m.parseJson('{text}'))") == text


async def test_types_are_parsed_from_sparks_words(page: Page, server: RecordedServer) -> None:
    text = "struct<a:int,`odd,name`:array<map<string,decimal(6,2)>>,t:tuple<time(6),bigint>>"
    fields = await called(
        page,
        server,
        "lib/type_text.js",
        f"m.parseType('{text}').fields.map((each) => [each.name, each.type.text])",
    )
    assert fields == [
        ["a", "int"],
        ["odd,name", "array<map<string,decimal(6,2)>>"],
        ["t", "tuple<time(6),bigint>"],
    ]


async def test_a_type_that_is_not_understood_keeps_its_text(
    page: Page, server: RecordedServer
) -> None:
    found = await called(page, server, "lib/type_text.js", "m.parseType('struct<a:').text")
    assert found == "struct<a:"


async def test_an_address_of_a_view_is_read_back(page: Page, server: RecordedServer) -> None:
    names = '{ job: "a/b ?", state: "s#t" }, { key: "k&=%", window_start: undefined }'
    route = await called(page, server, "lib/routes.js", f"m.parseRoute(m.linkTo('key', {names}))")
    assert route == {"view": "key", "job": "a/b ?", "state": "s#t", "search": {"key": "k&=%"}}


async def test_events_are_split_where_the_stream_cuts_them(
    page: Page, server: RecordedServer
) -> None:
    text = "id: 7\\nevent: changes\\ndata: {}\\n\\n: comment\\n\\ndata: {"
    found = await called(page, server, "lib/sse.js", f'm.splitEvents("{text}")')
    assert found == {"events": [{"type": "changes", "id": "7", "data": {}}], "rest": "data: {"}


async def test_an_operator_stands_right_of_all_its_inputs(
    page: Page, server: RecordedServer
) -> None:
    nodes = (
        "[{id: 'c', inputs: ['a', 'b'], lines: 1}, {id: 'b', inputs: ['a'], lines: 1}, "
        "{id: 'a', inputs: [], lines: 1}]"
    )
    code = f"Object.fromEntries(m.layOut({nodes}).nodes.map((node) => [node.id, node.x]))"
    places = await called(page, server, "parts/graph.js", code)
    assert places["a"] < places["b"] < places["c"]


async def test_a_window_of_microseconds_is_shown_and_addressed_exactly(
    page: Page, server: RecordedServer
) -> None:
    window = "{ start_us: 1767261600000500, end_us: 1767261600001000 }"
    shown = await called(page, server, "parts/windows.js", f"m.windowText({window})")
    assert shown == "2026-01-01 10:00:00.000500 \u2013 10:00:00.001Z"
    span = await called(page, server, "parts/windows.js", f"m.spanOf({window})")
    assert span == {"window_start_us": 1767261600000500, "window_end_us": 1767261600001000}
    back = "m.windowIn({ window_start_us: '1767261600000500', window_end_us: '1767261600001000' })"
    assert await called(page, server, "parts/windows.js", f"m.spanOf({back})") == span
    same = f"m.sameSpan(m.spanOf({window}), m.spanOf({back}))"
    assert await called(page, server, "parts/windows.js", same)
    early = "m.windowText({ start_us: -1, end_us: 0 })"
    assert await called(page, server, "parts/windows.js", early) == (
        "1969-12-31 23:59:59.999999 \u2013 1970-01-01 00:00:00Z"
    )
