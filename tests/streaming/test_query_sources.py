"""The sources of a savepoint, matched with those of a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from queryable_state.streaming.spark.savepoints.query_sources import (
    QuerySource,
    SourceMatch,
    recorded,
    written,
)
from queryable_state.streaming.spark.savepoints.source_offsets import MovedSources, moved_sources
from queryable_state.streaming.spark.sources.marker_offset import MARKER_FORMAT, MarkerOffset
from queryable_state.wire.errors import CorruptDataError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOCKS = json.dumps({"batchWatermarkMs": 70, "batchTimestampMs": 90, "conf": {}})
MARKER = (MARKER_FORMAT, "", "")


def sources(*each: tuple[str, str, str]) -> list[QuerySource]:
    """Sources of kind, location and uid; a source that is there twice is one source."""
    places = list(dict.fromkeys(each))
    return [
        QuerySource(
            key=str(number),
            folder=str(places.index((kind, location, uid))),
            kind=kind,
            location=location,
            uid=uid,
        )
        for number, (kind, location, uid) in enumerate(each)
    ]


def match(stored: Sequence[QuerySource], wanted: Sequence[QuerySource]) -> list[str | None]:
    """The folder from which each source of the program goes on."""
    found = SourceMatch(stored, wanted, "s")
    origins = [found.origin(each) for each in wanted]
    return [None if each is None else each.folder for each in origins]


A, B = ("kafka", "a", ""), ("kafka", "b", "")
UID_A, UID_B = ("kafka", "a", "x"), ("kafka", "b", "y")


@pytest.mark.parametrize(
    ("stored", "wanted", "origins"),
    [
        ((A, B), (B, A), ["1", "0"]),
        ((A, B), (("kafka", "c", ""), A), [None, "0"]),
        ((UID_A, UID_B), (("kafka", "c", "y"), UID_A), ["1", "0"]),
        ((UID_A,), (("kafka", "a", "y"),), [None]),
        ((A, B), (UID_B, UID_A), ["1", "0"]),
        ((UID_A, UID_B), (B, A), ["1", "0"]),
        ((A,), (("kafka", "a,b", ""),), ["0"]),
        ((A, MARKER), (("kafka", "a,b", ""),), ["0"]),
        ((A, B), (A, ("kafka", "c", "")), ["0", None]),
        ((A, A), (B, A, A), [None, "0", "0"]),
        ((("rate", "", ""),), (A,), [None]),
    ],
)
def test_a_uid_decides_and_else_what_is_read(
    stored: tuple[tuple[str, str, str], ...],
    wanted: tuple[tuple[str, str, str], ...],
    origins: list[str | None],
) -> None:
    assert match(sources(*stored), sources(*wanted)) == origins


def alike(count: int) -> list[QuerySource]:
    return [QuerySource(key=str(n), folder=str(n), kind="rate") for n in range(count)]


def test_sources_that_are_alike_go_by_their_order_or_are_refused() -> None:
    assert match(alike(2), alike(2)) == ["0", "1"]
    with pytest.raises(RestoreMismatchError, match=r"has 2 sources rate, without uid.*\.uid\(\)"):
        match(alike(2), alike(1))


def test_a_uid_does_not_change_its_format() -> None:
    with pytest.raises(RestoreMismatchError, match=r"'x' \(rate\) was 'x' \(kafka a\)"):
        match(sources(UID_A), sources(("rate", "", "x")))


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_named() -> None:
    assert recorded(written(sources(A, UID_B)), "s") == sources(A, UID_B)
    assert recorded(None, "s") is None
    for content in (
        b"",
        b"[]",
        b'{"version": 2, "sources": []}',
        b'{"version": 1, "sources": [{}]}',
    ):
        with pytest.raises(CorruptDataError, match=r"s/sources.json is no record"):
            recorded(content, "s")


def moved(
    stored: Sequence[QuerySource], wanted: Sequence[QuerySource], *, allow: bool = False
) -> MovedSources:
    found = moved_sources(written(stored), wanted, "s", allow_non_restored_state=allow)
    assert found is not None
    return found


def log(version: str, *offsets: str) -> bytes:
    return "\n".join([version, CLOCKS, *offsets]).encode()


def test_offsets_and_folders_move_with_their_sources() -> None:
    two = moved(sources(A, B), sources(("kafka", "c", ""), B, A))
    assert two.offsets(log("v1", "1", "2")) == log("v1", "-", "2", "1")
    assert two.offsets(log("v1", "-", "2")) == log("v1", "-", "2", "-")
    assert two.offsets(log("v2", "1:2", "0:1")) == log("v2", "0:-", "1:2", "2:1")
    names = ("sources/0/0", "sources/1/0", "sources/7/0", "offsets/3")
    assert [two.name(name) for name in names] == ["sources/2/0", "sources/1/0", None, "offsets/3"]
    twice = moved(sources(A, A), sources(A))
    assert twice.offsets(log("v1", "1", "1")) == log("v1", "1")


def test_a_marker_begins_with_an_offset_and_ends_unasked() -> None:
    marker = json.dumps(MarkerOffset().as_dict())
    assert moved(sources(A), sources(A, MARKER)).offsets(log("v1", "1")) == log("v1", "1", marker)
    assert moved(sources(A, MARKER), sources(A)).offsets(log("v1", "1", marker)) == log("v1", "1")


def test_removed_sources_are_given_up_only_if_that_is_allowed() -> None:
    with pytest.raises(RestoreMismatchError, match=r"does not have: kafka b.*allow_non_restored"):
        moved(sources(A, B), sources(A))
    kept = moved(sources(A, B), sources(A), allow=True)
    assert kept.offsets(log("v1", "1", "2")) == log("v1", "1")
    assert kept.name("sources/1/0") is None


def test_offsets_that_are_not_those_of_the_record_are_refused() -> None:
    with pytest.raises(RestoreMismatchError, match=r"sources.json is of 0, 1"):
        moved(sources(A, B), sources(A, B)).offsets(log("v1", "1"))


def test_names_of_spark_do_not_begin_behind_a_log_without_names() -> None:
    named = [QuerySource(key="orders", folder="orders", kind="kafka", location="a", uid="orders")]
    found = moved(sources(A), named)
    assert found.offsets(log("v2", "0:1")) == log("v2", "orders:1")
    with pytest.raises(RestoreMismatchError, match="enableSourceEvolution"):
        found.offsets(log("v1", "1"))
