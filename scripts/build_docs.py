"""Builds the documentation site: `make docs`.

Zensical reads pages from one folder, and mkdocstrings sources from one package; the repository has
neither. So the pages are copied into `build/docs/pages`, with links that are valid there, and the
sources into `build/docs/source`. Nothing of the package is imported.

Zensical is the maintained successor of Material for MkDocs, by its authors: Material ends in May
2027. It checks links and headings, and its search and pages need no other host. Sphinx would have
to import the package, with Spark, and reads Markdown only through a second parser.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import griffe
import mermaidx

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "docs" / "pages"
SOURCE = ROOT / "build" / "docs" / "source"

ELSEWHERE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "deploy/README.md": "deploy/index.md",
    "deploy/spark-submit/README.md": "deploy/spark-submit.md",
    "examples/book/README.md": "examples/book.md",
    "benchmarks/peers/go/README.md": "benchmarks/go-client.md",
}
"""Pages outside of docs/ and where they are in the site."""

LANGUAGES = {".ipynb": "json", ".java": "java", ".mjs": "javascript", ".go": "go", ".py": "python"}
"""Languages of files that pages link to; other files are shown as text."""

CLIENT = frozenset(
    {"QueryableStateClient", "Consistency", "ReadOptions", "Scan", "Tls", "Watch"}
    | {"Change", "ChangeKind", "ConnectionInfo"}
)
_FUNCTIONS = ("co_functions", "functions", "stateless", "operator_state", "vectorised")
_STREAMS = ("datastream", "operator_handles", "sinks", "sources", "streams")

REFERENCE = {
    "client": (
        "Client",
        (
            "`queryable_state.client`: asks a running job by key, with asyncio. The answers are in"
            " [Answers](answers.md), the errors in [Errors](errors.md), how to use it in"
            " [Queries](../queries.md)."
        ),
    ),
    "blocking": (
        "Blocking client",
        "`queryable_state.client.blocking`: the same calls for programs with threads.",
    ),
    "answers": (
        "Answers",
        "What the calls of a [client](client.md) return, from `queryable_state.client`.",
    ),
    "errors": (
        "Errors",
        (
            "What the calls of a [client](client.md) raise, from `queryable_state.client`. An error"
            " has a `reason`, which is the same on both sides of the wire."
        ),
    ),
    "environment": (
        "Environment and jobs",
        (
            "`queryable_state.streaming`: declare a job, configure it, start it and control it:"
            " [Configure an environment](../configuration.md)."
        ),
    ),
    "streams": (
        "Streams, sources and sinks",
        "`queryable_state.streaming`: [Streams of elements](../datastream.md).",
    ),
    "functions": (
        "Functions",
        (
            "`queryable_state.streaming`: base classes of functions, and the contexts they get:"
            " [Keyed state](../state.md), [Operator state](../operator-state.md),"
            " [process_batch](../process-batch.md)."
        ),
    ),
    "state": (
        "State and descriptors",
        "`queryable_state.streaming`: [Keyed state](../state.md), [Time to live](../ttl.md).",
    ),
    "windows": (
        "Windows and triggers",
        "`queryable_state.streaming`: [Windows](../windows.md).",
    ),
    "types": (
        "Types and values",
        (
            "Types of keys and values, from `queryable_state.streaming` and most also from"
            " `queryable_state.client`: [Types](../types.md)."
        ),
    ),
    "testing": (
        "Test doubles",
        (
            "`queryable_state.streaming.testing`: run functions without Spark, and a Kafka broker"
            " for tests: [Test functions](../testing.md)."
        ),
    ),
}
"""Title and first paragraph of each page of the API reference, by name."""


class DocsError(Exception):
    """A page or class that the site cannot have as it is; names it, and what to do."""


def stage_pages() -> None:
    """Copies all pages and what they link to into `PAGES`."""
    placed = dict(ELSEWHERE)
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.is_file():
            path = file.relative_to(ROOT).as_posix()
            placed[path] = path.removeprefix("docs/")
    placed["docs/README.md"] = "index.md"
    linked: set[str] = set()
    for path, place in placed.items():
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            page = (ROOT / path).read_text(encoding="utf-8")
            target.write_text(with_site_links(page, path, placed, linked), encoding="utf-8")
        else:
            shutil.copy2(ROOT / path, target)
    for path in sorted(linked):
        target = PAGES / source_page(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        language = LANGUAGES.get(Path(path).suffix, "text")
        text = (ROOT / path).read_text(encoding="utf-8")
        target.write_text(f"# `{path}`\n\n````{language}\n{text}````\n", encoding="utf-8")


def source_page(path: str) -> str:
    """The page of the site that shows a file of the repository."""
    return f"source/{path}.md"


def with_site_links(page: str, path: str, placed: dict[str, str], linked: set[str]) -> str:
    """The page with links that are valid at its place in the site.

    Adds files that get a page because of a link to `linked`. Links to folders, which a site does
    not have, become their text.
    """
    folder = Path(placed[path]).parent

    def moved(link: re.Match[str]) -> str:
        name, hash_sign, anchor = link["target"].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return link[0]
        file = Path(os.path.normpath(ROOT / path / ".." / name))
        named = file.relative_to(ROOT).as_posix()
        if file.is_dir():
            return link["text"].strip("!")[1:-1]
        if not file.exists():
            raise DocsError(f"{path} links to {link['target']}, and there is no {named}")
        if named not in placed:
            linked.add(named)
        place = placed.get(named) or source_page(named)
        return f"{link['text']}({os.path.relpath(place, folder)}{hash_sign}{anchor})"

    parts = re.split(r"(^```.*?^```$)", page, flags=re.MULTILINE | re.DOTALL)
    link = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")
    return "".join(part if part.startswith("```") else link.sub(moved, part) for part in parts)


def stage_sources() -> None:
    """Copies the four folders of the namespace package into one package of `SOURCE`.

    griffe reads a folder within a package only if it has an `__init__.py`.
    """
    package = SOURCE / "queryable_state"
    for part in ("client", "server", "streaming", "proto"):
        shutil.copytree(
            ROOT / part / "queryable_state",
            package,
            dirs_exist_ok=True,
            ignore=lambda folder, names: [
                name
                for name in names
                if not name.endswith((".py", ".pyi")) and not (Path(folder) / name).is_dir()
            ],
        )
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()


def stage_reference() -> None:
    """Writes the pages of the API reference: every public name is on one of them."""
    loader = griffe.GriffeLoader(search_paths=[SOURCE])
    loader.load("queryable_state")
    loader.resolve_aliases(implicit=False, external=False)
    pages: dict[str, list[str]] = {name: [] for name in REFERENCE}
    seen: set[str] = set()
    # Types are public in two packages: the streaming one has all of them.
    for package, exporters in (
        ("streaming", ("streaming.api", "streaming.windows", "streaming.stateless.metrics")),
        ("streaming.testing", ("streaming.testing",)),
        ("streaming.testing.kafka", ("streaming.testing.kafka",)),
        ("client", ("client",)),
        ("client.blocking", ("client.blocking",)),
    ):
        names: set[str] = set()
        for exporter in exporters:
            module = loader.modules_collection[f"queryable_state.{exporter}"]
            names |= {name for name in module.exports or () if isinstance(name, str)}
        for name in sorted(names):
            found = loader.modules_collection[f"queryable_state.{package}"][name]
            target = found.final_target if found.is_alias else found
            if name.startswith("__") or target.path in seen:
                continue
            seen.add(target.path)
            if not target.has_docstring and target.kind is griffe.Kind.CLASS:
                raise DocsError(f"{target.path} is public and has no docstring: write one")
            pages[page_of(package, name, target.path)].append(f"queryable_state.{package}.{name}")
    folder = PAGES / "reference"
    folder.mkdir(parents=True)
    for page, names_of_page in pages.items():
        title, first = REFERENCE[page]
        entries = "\n".join(f"::: {name}" for name in sorted(names_of_page, key=entry_order))
        (folder / f"{page}.md").write_text(f"# {title}\n\n{first}\n\n{entries}\n", encoding="utf-8")


def page_of(package: str, name: str, path: str) -> str:
    """The page of the reference that has a public name, by where it is defined."""
    room, _, rest = path.removeprefix("queryable_state.").partition(".")
    if package == "client.blocking":
        return "blocking"
    if package.startswith("streaming.testing"):
        return "testing"
    if package == "client":
        if name == "Reason" or name.endswith("Error"):
            return "errors"
        return "client" if name in CLIENT else "types" if room == "wire" else "answers"
    if room == "wire":
        return "types"
    first = rest.partition(".")[0]
    if first in _FUNCTIONS:
        return "state" if name.endswith("Descriptor") else "functions"
    if first in _STREAMS:
        return "streams"
    if first == "windows":
        return "windows"
    return "state" if "state" in first or first in ("descriptors", "ttl") else "environment"


def check_navigation() -> None:
    """Refuses a page that no reader would find, and an entry without a page."""
    # Zensical leaves out both without a word.
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"^ +- .*?([\w/-]+\.md)$", nav, re.MULTILINE))
    staged = {page.relative_to(PAGES).as_posix() for page in PAGES.rglob("*.md")}
    hidden = {page for page in staged if page.startswith(("source/", "benchmarks/"))}
    if wrong := named ^ (staged - hidden):
        raise DocsError(f"mkdocs.yml: `nav` and the pages differ in {sorted(wrong)}")


def check_pictures() -> None:
    """Refuses a picture that Mermaid cannot draw: a browser would show its source."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for picture in re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            try:
                mermaidx.render(picture).svg()
            except RuntimeError as error:
                raise DocsError(f"{page.relative_to(PAGES)}: {error}") from error


def entry_order(name: str) -> tuple[bool, str]:
    """Where an entry stands on its page: the class that one begins with, then by name."""
    last = name.rpartition(".")[2]
    return last not in ("QueryableStateClient", "StreamExecutionEnvironment", "DataStream"), last


def main() -> int:
    """Stages and builds; each warning of Zensical is an error. Returns the exit status."""
    shutil.rmtree(PAGES.parent, ignore_errors=True)
    try:
        stage_pages()
        stage_sources()
        stage_reference()
        check_navigation()
        check_pictures()
        with as_file(files("mermaidx") / "assets" / "mermaid.js") as script:
            assets = PAGES / "assets"
            assets.mkdir()
            shutil.copy2(script, assets / "mermaid.js")
    except DocsError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=ROOT, check=False)
    if built.returncode == 0:
        print("docs: build/site; to read it: python3 -m http.server -d build/site")
    return built.returncode


if __name__ == "__main__":
    raise SystemExit(main())
