"""The version of the package, the changelog and the files that deploy a release."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import ROOT

_RELEASE = re.compile(r"^## \[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d$", re.MULTILINE)


def releases() -> list[tuple[int, ...]]:
    """The released versions of the changelog, in its order."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return [tuple(map(int, found)) for found in _RELEASE.findall(changelog)]


def package_version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def test_releases_are_in_the_changelog_once_and_newest_first() -> None:
    assert releases()
    assert releases() == sorted(set(releases()), reverse=True)


def test_the_package_is_of_the_newest_release_or_on_the_way_to_the_next_one() -> None:
    version, _, dev = package_version().partition(".dev")
    number = tuple(map(int, version.split(".")))
    assert number > releases()[0] if dev else number == releases()[0]


def test_deployments_name_images_of_the_newest_release() -> None:
    newest = ".".join(map(str, releases()[0]))
    values = (ROOT / "deploy/helm/queryable-state/values.yaml").read_text(encoding="utf-8")
    chart = (ROOT / "deploy/helm/queryable-state/Chart.yaml").read_text(encoding="utf-8")
    page = (ROOT / "deploy/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r'tag: "([\d.]+)"', values)) == {newest}
    assert f'appVersion: "{newest}"' in chart
    assert set(re.findall(r"queryable-state(?:-spark)?:(\d[\d.]+\d)", page)) == {newest}
