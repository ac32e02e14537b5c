"""Generator of docs/pyflink.md, the table of PyFlink's names against ours.

`make pyflink-docs` writes the page; `make check` calls this with --check, which writes nothing and
fails if the page differs. PyFlink's methods and the remarks stand in pyflink_api.toml. Whether a
name exists here and takes PyFlink's parameters is read from our classes, so that the page cannot
name a method that is not there.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated_page import write_or_check

from queryable_state.streaming.compat.pyflink_alias import (
    MISSING_MODULES,
    MISSING_NAMES,
    exists,
    named,
)
from queryable_state.streaming.compat.pyflink_names import MODULES
from queryable_state.streaming.streams.refused_on_keyed import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FOLDER = Path(__file__).resolve().parent
API = _FOLDER / "pyflink_api.toml"
PAGE = _FOLDER.parent / "docs" / "pyflink.md"
DEFAULTS = (
    ("queryable-state.enable", "false", "true", "serving state is what this library is for"),
    (
        "execution.checkpointing.externalized-checkpoint-retention",
        "deleted on cancellation",
        "retained",
        "Spark keeps its offsets, and the same job continues from both",
    ),
    (
        "state.checkpoints.num-retained",
        "1",
        "2",
        "a damaged newest checkpoint leaves one to recover from",
    ),
    ("state.backend.incremental", "false", "true", "a checkpoint writes new files only"),
    (
        "parallelism.default",
        "1",
        "`spark.sql.shuffle.partitions` if set, else the cores",
        "a cluster is used without a setting",
    ),
    ("pipeline.max-parallelism", "from the parallelism", "128", "it is fixed for a state's life"),
    (
        "restart-strategy",
        "unlimited restarts with checkpointing",
        "the same, unless a user function keeps failing in one batch",
        "a failure that recurs is reported",
    ),
)
"""Keys whose default differs: Flink's default, ours, and the reason."""

STATUSES = ("works", "differs", "no effect", "refused", "missing")

HEAD = """# PyFlink's names

For people who move a PyFlink program, or look for a method that they know from PyFlink: each name
of PyFlink 1.20 (and of 1.10 and 1.11, where they have others) and what it does here.
`make pyflink-docs` writes this page from `scripts/pyflink_api.toml` and our classes.

## Run a PyFlink program

`install_pyflink_alias` makes `import pyflink.common` and `import pyflink.datastream` import this
library, in one process:

```python
from queryable_state.streaming.compat import install_pyflink_alias

install_pyflink_alias()

from pyflink.common import Configuration, RestartStrategies
from pyflink.datastream import CheckpointingMode, StreamExecutionEnvironment

configuration = Configuration()
configuration.set_string("restart-strategy.type", "fixed-delay")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE)
```

It is refused if PyFlink itself is installed. A name or module that is missing raises ImportError
with the reason. A function that imports `pyflink` in its body needs the call in Spark's Python
workers too: make it in the module of the function.

## Defaults that differ

{defaults}
## Read the tables

| Status | Meaning |
|---|---|
| works | the same parameters and meaning |
| differs | other parameters or another meaning, as the remark says |
| no effect | accepted, kept and returned; the first value other than the default logs a WARNING |
| refused | raises InvalidRequestError, which says what to do |
| missing | there is no such name |
"""


@dataclass(frozen=True)
class Row:
    """One method of PyFlink."""

    signature: str
    status: str
    remark: str


def page() -> str:
    """The whole page."""
    api = tomllib.loads(API.read_text(encoding="utf-8"))
    rows = {name: list(rows_of(name, entry)) for name, entry in api.items()}
    counted = Counter(row.status for each in rows.values() for row in each)
    summary = ", ".join(f"{counted[status]} {status}" for status in STATUSES)
    defaults = ["| Key | Flink | Here | Reason |", "|---|---|---|---|"]
    defaults += [f"| `{key}` | {' | '.join(cells)} |" for key, *cells in DEFAULTS]
    parts = [
        HEAD.replace("{defaults}", "\n".join(defaults) + "\n"),
        f"Of the methods below: {summary}.\n",
    ]
    for name, each in rows.items():
        parts.append(f"## {name}\n\n`{api[name]['module']}`\n")
        if not exists(name):
            parts.append(f"The class is missing{_because(name)}.\n")
            continue
        if not each:
            parts.append("It has a constructor without arguments.\n")
            continue
        lines = ["| PyFlink | Status | Remark |", "|---|---|---|"]
        lines += [f"| `{row.signature}` | {row.status} | {row.remark} |" for row in each]
        parts.append("\n".join(lines) + "\n")
    parts.append("## Modules\n")
    lines = ["| Module | Names that work | Missing |", "|---|---|---|"]
    for module, names in MODULES.items():
        here = ", ".join(f"`{name}`" for name in names if exists(name))
        missing = ", ".join(f"`{name}`" for name in names if not exists(name))
        lines.append(f"| `{module}` | {here} | {missing} |")
    lines += [f"| `{module}` | | all: {why} |" for module, why in MISSING_MODULES.items()]
    parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def rows_of(name: str, entry: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one class; raises ValueError for a remark on an unknown method or status."""
    notes = dict(entry.get("notes", {}))
    for signature in entry["members"]:
        method = signature.partition("(")[0]
        noted, _, remark = notes.pop(method, "works:").partition(":")
        if noted not in STATUSES:
            raise ValueError(f"{API}: the remark on {name}.{method} begins with {noted!r}")
        target = getattr(named(name), method, None) if exists(name) else None
        if target is None and name == "KeyedStream" and method in REFUSED:
            yield Row(signature, "refused", "call it before key_by or on an operator's output")
            continue
        if target is None:
            yield Row(signature, "missing", remark.strip() if noted == "missing" else "")
            continue
        if noted == "missing":
            noted, remark = "works", ""
        other = "" if noted == "refused" else other_parameters(target, signature)
        if other and noted == "works":
            noted = "differs"
        remark = "; ".join(filter(None, (other, remark.strip())))
        yield Row(signature, noted, remark)
    if notes:
        raise ValueError(f"{API}: {name} has remarks on unknown methods: {', '.join(notes)}")


def other_parameters(target: object, signature: str) -> str:
    """Our parameters, if a call with PyFlink's positional or keyword arguments would not fit."""
    wanted = [part.strip() for part in re.sub(r"^\w+\(|\)$", "", signature).split(",")]
    wanted = [part for part in wanted if part]
    assert callable(target), signature
    parameters = [
        each
        for each in inspect.signature(target).parameters.values()
        if each.name not in ("self", "cls")
    ]
    names = [
        f"*{each.name}" if each.kind is each.VAR_POSITIONAL else each.name for each in parameters
    ]
    positional = [
        name
        for name, each in zip(names, parameters, strict=True)
        if each.kind is not each.KEYWORD_ONLY
    ]
    if positional[: len(wanted)] == wanted:
        return ""
    return f"parameters: {', '.join(names) or 'none'}"


def _because(name: str) -> str:
    reason = MISSING_NAMES.get(name, "")
    return f": {reason}" if reason else ""


def main() -> int:
    return write_or_check(PAGE, page, description=__doc__, target="pyflink-docs")


if __name__ == "__main__":
    sys.exit(main())
