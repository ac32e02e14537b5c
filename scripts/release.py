"""Builds a release and proves that it installs and runs: `make release VERSION=0.2.0`.

Builds sdist and wheel, the wheel from the sdist, so that a file that the sdist lacks is found here.
Installs each in an empty environment outside of the repository, runs the demo from the wheel, and
writes `dist/SHA256SUMS` last: with that file the artefacts of `dist` have passed.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LOCK = ROOT / "requirements.lock"
PACKAGE = "spark-queryable-state"
IMAGES = (
    "deploy/README.md",
    "deploy/helm/queryable-state/Chart.yaml",
    "deploy/helm/queryable-state/values.yaml",
)
"""Files that name the newest release as the tag of images."""


class ReleaseError(Exception):
    """What keeps a version from being released, and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and prove a release.")
    parser.add_argument("--version", help="release this version: x.y.z; else build the current one")
    parser.add_argument("--seconds", type=int, default=10, help="how long the demo runs")
    options = parser.parse_args()
    try:
        if options.version:
            set_version(options.version)
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        check_changelog(version)
        wheel, sdist = built(version)
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            try_client(sdist, Path(folder) / "sdist", version)
            try_demo(wheel, Path(folder) / "wheel", version, seconds=options.seconds)
        write_hashes(wheel, sdist)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: failed with status {error.returncode}: {error.cmd}", file=sys.stderr)
        return 1
    print(f"release: {version} is in dist/, with SHA256SUMS")
    return 0


def set_version(version: str) -> None:
    """Writes a version into all files that name it; closes the changelog's open section."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ReleaseError(f"VERSION={version} is no x.y.z")
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if f"## [{version}]" in text:
        raise ReleaseError(f"CHANGELOG.md has a section {version} already: take the next version")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    before = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)[0]
    opened = f"## [Unreleased]\n\n## [{version}] - {today}\n"
    changelog.write_text(text.replace("## [Unreleased]\n", opened, 1), encoding="utf-8")
    project = ROOT / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    text = re.sub(r'^version = ".*"$', f'version = "{version}"', text, count=1, flags=re.MULTILINE)
    project.write_text(text, encoding="utf-8")
    for name in IMAGES:
        file = ROOT / name
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(before, version), encoding="utf-8")


def check_changelog(version: str) -> None:
    """Refuses a version whose changes are not written down; a `.dev` version has none yet."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if ".dev" not in version and not re.search(heading, changelog, re.MULTILINE):
        raise ReleaseError(
            f"pyproject.toml has version {version}, and CHANGELOG.md no section "
            f"`## [{version}] - <date>`: run make release VERSION={version}"
        )


def built(version: str) -> tuple[Path, Path]:
    """The wheel and the sdist of this version in `dist`, which has nothing else."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist"], cwd=ROOT, check=True
    )
    (sdist,) = DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        shutil.unpack_archive(sdist, folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        wheels = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(DIST)]
        subprocess.run([sys.executable, *wheels], cwd=unpacked, check=True)
    (wheel,) = DIST.glob("*.whl")
    for artefact in (wheel, sdist):
        if f"-{version}" not in artefact.name:
            raise ReleaseError(f"{artefact.name} is not of version {version}")
    return wheel, sdist


def environment(folder: Path, artefact: Path, extras: str = "") -> Path:
    """The Python of a new environment that has only an artefact and what it requires."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # An older pip has no constraints for builds.
    subprocess.run([*pip, "-c", str(LOCK), "pip"], check=True)
    requirement = f"{PACKAGE}{extras} @ {artefact.as_uri()}"
    pinned = ["-c", str(LOCK), "--build-constraint", str(LOCK)]
    subprocess.run([*pip, *pinned, requirement], check=True)
    return python


def outside(python: Path) -> dict[str, str]:
    """Environment variables in which only what `python` has installed is imported."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PATH"] = f"{python.parent}{os.pathsep}{variables['PATH']}"
    variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = str(python)
    return variables


def try_client(artefact: Path, folder: Path, version: str) -> None:
    """Installs the client alone, and asks its command for the version."""
    print(f"== {artefact.name}: the client in an empty environment", flush=True)
    python = environment(folder, artefact)
    command = [str(python.parent / "queryable-state"), "--version"]
    said = subprocess.run(
        command, cwd=folder, env=outside(python), check=True, capture_output=True, text=True
    )
    if version not in said.stdout:
        raise ReleaseError(f"{artefact.name}: --version says {said.stdout!r}, not {version}")


def try_demo(artefact: Path, folder: Path, version: str, *, seconds: int) -> None:
    """Installs all that examples need, and runs the demo on a copy outside of the repository."""
    print(f"== {artefact.name}: the demo in an empty environment", flush=True)
    python = environment(folder, artefact, "[examples]")
    for name in ("temperature_dashboard.py", "temperature_job.py"):
        shutil.copy2(ROOT / "examples" / name, folder)
    command = [str(python), "temperature_dashboard.py", "--seconds", str(seconds)]
    ran = subprocess.run(
        command, cwd=folder, env=outside(python), check=True, stdout=subprocess.PIPE, text=True
    )
    if "sensor_1" not in ran.stdout:
        raise ReleaseError(f"{artefact.name}: the demo of {version} shows no sensor:\n{ran.stdout}")


def write_hashes(*artefacts: Path) -> None:
    """Writes what `sha256sum --check SHA256SUMS` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in artefacts]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
