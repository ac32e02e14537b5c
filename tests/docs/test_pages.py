"""Links, anchors, paths and fences of the documentation."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import ILLUSTRATION, PAGES, ROOT, RUN, blocks, commands, prose

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$", re.MULTILINE)
_PATH = re.compile(
    r"`(?P<path>(?:proto|client|server|streaming|tests|benchmarks|examples|scripts|docs|deploy)/[\w./-]+)`"
)
_TERM = re.compile(r"^\| \*\*(?P<term>[^*]+)\*\* \|", re.MULTILINE)
LONGEST_LINE = 160

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.finditer(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@by_page
def test_each_link_has_a_target(page: Path) -> None:
    """Of links within the repository: the file is there, and the heading."""
    broken = []
    for link in _LINK.finditer(prose(page)):
        target = link["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken, f"{page.relative_to(ROOT)} links to what is not there: {broken}"


@by_page
def test_each_path_that_a_page_names_can_be_opened_from_the_root(page: Path) -> None:
    """A path without `queryable_state/` would be found by nobody but its author."""
    named = [found["path"] for found in _PATH.finditer(prose(page))]
    gone = [path for path in named if not (ROOT / path).exists()]
    assert not gone, (
        f"{page.relative_to(ROOT)} names paths that are not in the repository: {gone}; "
        "write them from its root, as server/queryable_state/server/storage"
    )


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_lines_of_prose_are_short(page: Path) -> None:
    """Rows of tables cannot be broken; all other lines can."""
    long = [
        number
        for number, line in enumerate(prose(page).splitlines(), 1)
        if len(line) > LONGEST_LINE and not line.startswith("|")
    ]
    assert not long, f"{page.relative_to(ROOT)}: lines {long} are over {LONGEST_LINE} characters"


@by_page
def test_each_block_says_what_it_is(page: Path) -> None:
    """A block is run, or its language says that it only illustrates."""
    wrong = [
        f"{block}: {block.language or 'no language'}"
        for block in blocks(page)
        if block.language not in RUN | ILLUSTRATION
    ]
    assert not wrong, (
        f"{wrong}: use {sorted(RUN)} for blocks that tests run, {sorted(ILLUSTRATION)} for others"
    )


@by_page
def test_each_console_block_has_a_command(page: Path) -> None:
    """Commands stand behind `$ `; a block of output alone is `text`."""
    assert all(commands(block) for block in blocks(page) if block.language == "console")


def test_the_start_page_names_every_page() -> None:
    """A page that nobody links is not found."""
    start = ROOT / "docs" / "README.md"
    linked = {
        (start.parent / link["target"].partition("#")[0]).resolve()
        for link in _LINK.finditer(prose(start))
    }
    pages = {page for page in PAGES if page.parent == start.parent} - {start}
    assert pages <= linked


def test_terms_of_the_glossary_are_in_order_and_once() -> None:
    """Each table of the glossary is sorted."""
    for section in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## "):
        terms = [term["term"].lower() for term in _TERM.finditer(section)]
        assert terms == sorted(set(terms))


def test_extras_that_are_installed_exist() -> None:
    """`pip install 'spark-queryable-state[x]'` names an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        extra
        for page in PAGES
        for extra in re.findall(r"spark-queryable-state\[(\w+)\]", page.read_text(encoding="utf-8"))
    }
    assert named <= set(project["optional-dependencies"])


def test_the_glossary_names_classes_where_they_are() -> None:
    """Its last table gives the module of each class."""
    rows = re.findall(
        r"\| `(\w+)` \| `([\w/]+\.py)` \|", (ROOT / "docs" / "glossary.md").read_text()
    )
    assert rows
    for name, path in rows:
        module = ROOT / path
        assert re.search(rf"^class {name}\b", module.read_text(), re.MULTILINE), f"{name}: {module}"
