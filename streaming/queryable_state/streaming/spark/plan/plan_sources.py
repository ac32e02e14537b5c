"""The sources of a query, read from its analyzed plan."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from queryable_state.streaming.spark.savepoints.query_sources import QuerySource
from queryable_state.streaming.spark.sources.marker_offset import MARKER_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.nodes import SourceNode

_LOCATION: Final = (
    "path",
    "subscribe",
    "subscribepattern",
    "assign",
    "topic",
    "streamname",
    "table",
    "host",
    "port",
)
"""Options that name what a source reads, in lower case, of the sources of Spark and of others."""
_SECRET: Final = re.compile(r"secret|password|token|key|credential|jaas|sasl|ssl", re.IGNORECASE)


def query_sources(frame: DataFrame, nodes: Sequence[SourceNode]) -> list[QuerySource]:
    """The sources of a query that writes `frame`, one per offset, in the order of the offsets.

    Spark numbers the streaming leaves of the analyzed plan from left to right; equal leaves are one
    source. `nodes` are the job's sources, whose uids count.
    """
    return plan_sources(_plan(frame), nodes)


def plan_sources(plan: Any, nodes: Sequence[SourceNode] = ()) -> list[QuerySource]:
    """As `query_sources`, of an analyzed plan."""
    own = [(node, _streams(_plan(node.dataframe))) for node in nodes]
    found: list[tuple[Any, QuerySource]] = []
    for leaf in _streams(plan):
        folder = next((before.folder for each, before in found if each.equals(leaf)), None)
        name = _spark_name(leaf)
        number = len({source.folder for _, source in found})
        options = _options(leaf)
        kind = _kind(leaf)
        is_marker = kind == MARKER_FORMAT
        source = QuerySource(
            key=name or str(len(found)),
            folder=folder or name or str(number),
            uid=_uid(leaf, own) or name,
            kind=kind,
            location="" if is_marker else _location(options),
            digest="" if is_marker else _digest(options),
        )
        found.append((leaf, source))
    return [source for _, source in found]


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _streams(plan: Any) -> list[Any]:
    """The streaming leaves of a plan, from left to right."""
    leaves = plan.collectLeaves()
    every = (leaves.apply(number) for number in range(leaves.size()))
    return [leaf for leaf in every if _class(leaf).startswith("StreamingRelation")]


def _uid(leaf: Any, own: Sequence[tuple[SourceNode, list[Any]]]) -> str:
    """The uid of the stream that a leaf of the whole plan belongs to; empty if it has none.

    Spark gives a leaf that is joined with itself new column ids; then the reader decides.
    """
    for same in (lambda one: one.equals(leaf), lambda one: _reader(one).equals(_reader(leaf))):
        for node, leaves in own:
            if any(map(same, leaves)):
                return node.given_uid or ""
    return ""


def _reader(leaf: Any) -> Any:
    return leaf.dataSource() if _is_v1(leaf) else leaf.table()


def _kind(leaf: Any) -> str:
    name: str = leaf.sourceName()
    return "file" if name.startswith("FileSource[") else name


def _spark_name(leaf: Any) -> str:
    """The name that `readStream.name()` gave; empty if none, or if Spark has no such names."""
    try:
        given = leaf.sourceIdentifyingName()
    except Py4JError:
        return ""
    return str(given.name()) if _class(given) == "UserProvided" else ""


def _options(leaf: Any) -> dict[str, str]:
    """The options of a reader, by their names in lower case, without those that may be secret."""
    if _is_v1(leaf):
        pairs = [(each._1(), each._2()) for each in _iterated(leaf.dataSource().options())]
        pairs += [("path", path) for path in _iterated(leaf.dataSource().paths())]
    else:
        entries = leaf.extraOptions().asCaseSensitiveMap().entrySet().iterator()
        pairs = [(each.getKey(), each.getValue()) for each in _drained(entries)]
    options = {str(name).lower(): str(value) for name, value in pairs}
    return {name: value for name, value in options.items() if not _SECRET.search(name)}


def _location(options: dict[str, str]) -> str:
    return " ".join(options[name] for name in _LOCATION if name in options)


def _digest(options: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(options.items())).encode()).hexdigest()[:16]


def _is_v1(leaf: Any) -> bool:
    return _class(leaf) == "StreamingRelation"


def _class(item: Any) -> str:
    name: str = item.getClass().getSimpleName()
    return name


def _iterated(collection: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    return _drained(collection.iterator())


def _drained(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
