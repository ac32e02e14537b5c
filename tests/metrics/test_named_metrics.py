"""docs/metrics.md, the dashboard and the alert rules name metrics that the processes serve."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import promql_parser
import yaml
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.metrics.scraping import Scrape

PAGE = ROOT / "docs" / "metrics.md"
PROMETHEUS = ROOT / "deploy" / "prometheus"

ROW = re.compile(r"^\| `(queryable_state_\w+)` \| (\w+) \| (.+) \|$", re.MULTILINE)
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
}


def served(scrapes: dict[str, Scrape]) -> dict[str, tuple[str, str]]:
    """Type and text of each family of ours, by the name that the page gives it."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            family.documentation,
        )
        for scrape in scrapes.values()
        for family in scrape.families.values()
        if family.name.startswith("queryable_state_")
    }


def series(scrapes: dict[str, Scrape]) -> set[str]:
    """The names of series."""
    return {
        family.name + suffix
        for scrape in scrapes.values()
        for family in scrape.families.values()
        for suffix in SUFFIXES[family.type]
    }


def rules() -> Iterator[tuple[str, str]]:
    """The alert rules by name."""
    for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert {"summary", "action"} <= rule["annotations"].keys(), rule["alert"]
            assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
            yield rule["alert"], rule["expr"]


def panels() -> Iterator[tuple[str, str]]:
    """The queries of the dashboard by title of the panel."""
    for panel in json.loads((PROMETHEUS / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$job", ".*")


def selectors(expression: object) -> Iterator[str]:
    """The names of the metrics in an expression."""
    if isinstance(expression, promql_parser.VectorSelector):
        assert expression.name
        yield expression.name
    for name in ("expr", "lhs", "rhs", "vector_selector", "vs", "param"):
        yield from selectors_in(getattr(expression, name, None))
    yield from selectors_in(getattr(expression, "args", None))


def selectors_in(part: object) -> Iterator[str]:
    """As `selectors`, of a part that may be missing or a list."""
    if isinstance(part, list):
        for each in part:
            yield from selectors(each)
    elif part is not None and not isinstance(part, str | int | float):
        yield from selectors(part)


async def test_the_page_lists_each_metric_with_its_type_and_text(
    scrapes: dict[str, Scrape],
) -> None:
    listed = {name: (kind, text) for name, kind, text in ROW.findall(PAGE.read_text())}
    assert listed == served(scrapes)


async def test_rules_and_dashboard_parse_and_name_metrics_that_exist(
    scrapes: dict[str, Scrape],
) -> None:
    known = series(scrapes)
    expressions = [*rules(), *panels()]
    assert len(expressions) > 40
    for where, expression in expressions:
        names = set(selectors(promql_parser.parse(expression)))
        assert names, where
        assert names <= known, (where, names - known)


async def test_the_driver_counts_checkpoints_and_leases(scrapes: dict[str, Scrape]) -> None:
    driver = scrapes["Driver"]
    checkpoints = "queryable_state_checkpoints_total"
    assert driver.value(checkpoints, job_name="sensors", outcome="completed") == 1
    assert driver.value("queryable_state_checkpoint_duration_seconds_count") == 1
    assert driver.value("queryable_state_last_checkpoint_bytes", job_name="sensors") > 0
    assert driver.value("queryable_state_servers", lease="HELD") == 1
    assert driver.value("queryable_state_job_committed_batch", job_name="sensors") == 0
    server = scrapes["State server"]
    assert server.value("queryable_state_rocksdb_estimate_num_keys") >= 1
    calls = "queryable_state_backend_call_duration_seconds_count"
    assert server.value(calls, call="Snapshot") == 1
