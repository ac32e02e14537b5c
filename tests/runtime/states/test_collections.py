"""List, map and reducing state: their operations, and the reads they send."""

from __future__ import annotations

from tests.runtime.states.interpreter import fetches, interpreting, run

from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.v1.query_pb2 import ReadKind


def test_a_list_is_appended_to_without_being_read() -> None:
    harness = interpreting()
    for batch in range(3):
        run(harness, [("list.add", (batch,))], [("list.add_all", ([10 + batch, 20 + batch],))])

    assert fetches(harness) == []
    assert harness.state("list", "k") == [0, 10, 20, 1, 11, 21, 2, 12, 22]
    assert run(harness, [("list.add", (9,)), ("list.get", ())])[0][1][-2:] == [22, 9]


def test_a_list_is_replaced_and_cleared() -> None:
    harness = interpreting()
    run(harness, [("list.add_all", ([1, 2],))])
    run(harness, [("list.update", ([7],)), ("list.add", (8,))])
    assert harness.state("list", "k") == [7, 8]
    assert run(harness, [("list.clear", ()), ("list.get", ())]) == [[None, []]]
    assert harness.state("list", "k") == []


def test_a_long_append_is_cut_into_chunks_of_the_allowed_size() -> None:
    harness = interpreting(settings=RuntimeSettings(value_bytes=1000))
    run(harness, [("list.add_all", (range(2000),))])

    assert harness.state("list", "k") == list(range(2000))


def test_the_list_a_function_got_is_its_own() -> None:
    harness = interpreting()
    run(harness, [("list.add", (1,))])
    results = run(harness, [("list.get", ()), ("list.add", (2,)), ("list.get", ())])
    assert results == [[[1], None, [1, 2]]]


def test_a_map_is_read_and_written_by_entry() -> None:
    harness = interpreting()
    run(harness, [("map.put", ("b", 2)), ("map.put_all", ({"a": 1, "c": 3},))])
    results = run(
        harness,
        [
            ("map.get", ("a",)),
            ("map.get", ("z",)),
            ("map.contains", ("b",)),
            ("map.remove", ("b",)),
            ("map.contains", ("b",)),
            ("map.put", ("a", 10)),
            ("map.items", ()),
            ("map.keys", ()),
            ("map.values", ()),
            ("map.is_empty", ()),
        ],
    )
    assert results == [
        [
            1,
            None,
            True,
            None,
            False,
            None,
            [("a", 10), ("c", 3)],
            ["a", "c"],
            [10, 3],
            False,
        ]
    ]
    assert harness.state("map", "k") == {"a": 10, "c": 3}


def test_a_cleared_map_forgets_what_was_stored_and_not_what_comes_after() -> None:
    harness = interpreting()
    run(harness, [("map.put_all", ({"a": 1, "b": 2},))])
    results = run(harness, [("map.clear", ()), ("map.get", ("a",)), ("map.put", ("c", 3))])
    assert results == [[None, None, None]]
    assert fetches(harness) == []
    assert harness.state("map", "k") == {"c": 3}


def test_an_entry_written_before_the_map_is_read_stays() -> None:
    harness = interpreting()
    run(harness, [("map.put_all", ({"a": 1, "b": 2},))])
    results = run(harness, [("map.put", ("a", 5)), ("map.remove", ("b",)), ("map.items", ())])
    assert results[0][-1] == [("a", 5)]


def test_a_map_over_the_limit_is_read_entry_by_entry_and_whole_when_iterated() -> None:
    harness = interpreting(settings=RuntimeSettings(map_prefetch_entries=10))
    run(harness, [("map.put_all", ({f"e{i:03}": i for i in range(100)},))])

    results = run(
        harness,
        [
            ("map.get", ("e050",)),
            ("map.get", ("none",)),
            ("map.get", ("none",)),
            ("map.is_empty", ()),
            ("map.remove", ("e051",)),
            ("map.put", ("e052", -1)),
        ],
    )
    assert results[0][:4] == [50, None, None, False]
    points = [fetch for fetch in fetches(harness) if fetch.read == ReadKind.POINT]
    assert [len(fetch.keys) for fetch in points] == [1, 1]

    keys = run(harness, [("map.keys", ())])[0][0]
    assert len(keys) == 99
    assert "e051" not in keys


def test_a_reducing_state_reduces_what_is_added() -> None:
    harness = interpreting()
    assert run(harness, [("sum.get", ()), ("sum.add", (2,)), ("sum.add", (3,))])[0][0] is None
    assert run(harness, [("sum.add", (5,)), ("sum.get", ())]) == [[None, 10]]
    assert harness.state("sum", "k") == 10
    run(harness, [("sum.clear", ())])
    assert harness.state("sum", "k") is None


def test_one_entry_of_a_large_map_is_found_by_one_point_read() -> None:
    harness = interpreting(settings=RuntimeSettings(map_prefetch_entries=10))
    run(harness, [("map.put_all", ({f"e{i:03}": i for i in range(100)},))])

    found = run(harness, [("map.__contains__", ("e050",)), ("map.__getitem__", ("e050",))])
    assert found == [[True, 50]]
    prefetch, point = fetches(harness)
    assert (prefetch.read, prefetch.limit) == (ReadKind.PREFIX, 10)
    assert (point.read, len(point.keys)) == (ReadKind.POINT, 1)


def test_what_a_batch_wrote_itself_is_known_to_be_there_without_a_fetch() -> None:
    harness = interpreting()
    written = [("map.put", ("a", 1)), ("list.add", (1,))]
    read = [("map.is_empty", ()), ("map.__contains__", ("a",)), ("list.is_empty", ())]
    assert run(harness, [*written, *read])[0][2:] == [False, True, False]
    assert fetches(harness) == []


def test_the_length_of_a_list_of_lists_decodes_no_element() -> None:
    harness = interpreting()
    run(harness, [("rows.add_all", ([[1], [2, 3]],))])
    assert run(harness, [("rows.add", ([4],)), ("rows.__len__", ())]) == [[None, 3]]


def test_a_position_that_a_list_does_not_have_is_an_index_error() -> None:
    harness = interpreting()
    run(harness, [("list.add_all", ([1, 2, 3],))])
    calls = [("list.__getitem__", (3,)), ("list.__delitem__", (0,)), ("list.__getitem__", (-1,))]
    assert run(harness, calls) == [["IndexError", None, 3]]
    assert harness.state("list", "k") == [2, 3]


def test_a_map_entry_that_is_not_there_reads_as_none_and_is_deleted_without_an_error() -> None:
    """As in PyFlink, and unlike a dict."""
    harness = interpreting()
    calls = [("map.__getitem__", ("a",)), ("map.__delitem__", ("a",)), ("map.__len__", ())]
    assert run(harness, calls) == [[None, None, 0]]


class Pairs:
    """No mapping, but something with items, such as another `MapState`."""

    def items(self) -> list[tuple[str, int]]:
        return [("b", 2)]


def test_a_map_is_copied_from_anything_with_items() -> None:
    harness = interpreting()
    run(harness, [("map.put_all", ({"a": 1},)), ("map.put_all", (Pairs(),))])
    assert harness.state("map", "k") == {"a": 1, "b": 2}
