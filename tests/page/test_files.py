"""The files of the page: they stand on their own, without a network or a build."""

from __future__ import annotations

import re

from tests.page.recorded_server import PAGE

_OWN = sorted(
    path
    for path in PAGE.rglob("*")
    if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts
)
_IMPORT = re.compile(r"""from "(\.[^"]+)"|(?:href|src)="(?!#|\$)([^"]+)"|url\("([^"]+)"\)""")


def test_files_are_short() -> None:
    assert _OWN
    assert not [path.name for path in _OWN if len(path.read_text().splitlines()) > 300]


def test_files_name_only_files_that_are_there() -> None:
    missing = [
        f"{path.relative_to(PAGE)}: {name}"
        for path in _OWN
        for found in _IMPORT.findall(path.read_text())
        for name in [next(filter(None, found))]
        if path.suffix != ".js" or name.startswith(".")
        if not (path.parent / name).is_file()
    ]
    assert not missing


def test_nothing_is_loaded_from_another_site() -> None:
    outside = re.compile(r"""["'(](?:https?:)?//(?!www\.w3\.org)""")
    assert not [path.name for path in _OWN if outside.search(path.read_text())]


def test_each_vendored_folder_has_its_licence() -> None:
    folders = [path for path in (PAGE / "vendor").iterdir() if path.is_dir()]
    assert folders
    assert not [path.name for path in folders if not list(path.glob("LICENSE*"))]


def test_the_page_loads_all_modules_at_once() -> None:
    """Without preloads the browser finds a module only after the one that imports it."""
    index = (PAGE / "index.html").read_text()
    modules = {str(path.relative_to(PAGE)) for path in _OWN if path.suffix == ".js"}
    assert set(re.findall(r'(?:modulepreload" href|module" src)="(js/[^"]+)"', index)) == modules
