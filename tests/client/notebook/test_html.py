"""What a notebook shows of results: `_repr_html_` of states, multi-gets, explanations and jobs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.client._notebook.html import MOST_ROWS, html_table

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


def cells_of(shown: str) -> list[list[str]]:
    """The texts of a table's rows; fails if it is not well-formed."""
    page = ET.fromstring(f"<div>{shown}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


def caption_of(shown: str) -> str:
    caption = ET.fromstring(f"<div>{shown}</div>").find(".//caption")
    assert caption is not None
    return "".join(caption.itertext())


def html_of(result: Any) -> str:
    shown: str = result._repr_html_()
    return shown


async def test_a_value_is_shown_with_its_batch(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    state = await client.get_kv_state("sensors", "last", "sensor_1")
    assert cells_of(html_of(state)) == [[repr(state.value())]]
    assert caption_of(html_of(state)) == f"ValueState at batch {state.info.version}"


async def test_entries_of_a_map_and_elements_of_a_list_are_rows(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    counts = await client.get_kv_state("sensors", "counts", "sensor_1")
    head, *rows = cells_of(html_of(counts))
    assert head == ["key", "value"]
    assert rows == [[key, repr(value)] for key, value in counts.items()]


async def test_each_key_of_a_multi_get_is_a_row_missing_ones_too(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    found = await client.multi_get("sensors", "last", ["sensor_1", "<nobody>"])
    head, first, second = cells_of(html_of(found))
    assert head == ["key", "state"]
    assert first == ["sensor_1", repr(found[0].state)]
    assert second == ["<nobody>", "nothing is stored"]


async def test_an_explanation_has_a_bar_for_each_step(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    explanation = await client.explain("sensors", "last", "sensor_1")
    shown = html_of(explanation)
    assert [row[0] for row in cells_of(shown)] == [str(step)[:301] for step in explanation.steps]
    assert shown.count("margin-left") == len(explanation.steps)
    assert f"key group {explanation.key_group}" in caption_of(shown)


async def test_a_job_is_shown_with_its_operators(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    described = await client.describe_job("sensors")
    rows = dict(cells_of(html_of(described)))
    assert rows["batch"].startswith(f"{described.last_batch.batch_id}:")
    assert any("last" in text and "subtasks" in text for text in rows.values())


@given(st.lists(st.tuples(st.text(), st.binary() | st.none() | st.floats()), max_size=80))
def test_any_texts_and_values_are_escaped_and_long_tables_are_cut(rows: list[Any]) -> None:
    shown = html_table("rows <b>", ("text", "value"), rows, of=len(rows))
    assert shown.count("<tr>") == min(len(rows), MOST_ROWS) + 1
    assert "<b>" not in shown
    assert shown.count("<td ") == shown.count("</td>") == 2 * min(len(rows), MOST_ROWS)
    assert ("…" in shown.rpartition("</table>")[2]) == (len(rows) > MOST_ROWS)
