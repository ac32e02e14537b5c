"""Packages of the distribution's extras, and the error of an extra that is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES: dict[str, tuple[str, ...]] = {
    "arrow": ("pyarrow",),
    "cli": ("shtab",),
    "pandas": ("pandas", "pyarrow"),
    "server": (
        "aiohttp",
        "cramjam",
        "fsspec",
        "google_crc32c",
        "grpc_health",
        "grpc_reflection",
        "jwt",
        "prometheus_client",
        "psutil",
        "rocksdict",
        "uvloop",
    ),
    "streaming": ("numpy", "pandas", "pyarrow", "pyspark"),
}
"""Names under which the packages of an extra are imported. `streaming` also needs `server`."""

_INCLUDED = {"streaming": ("server",)}


def require_extra(extra: str, user: str) -> None:
    """Checks that the packages of an extra are installed; imports none of them.

    `user` is what needs them, for the error. Raises ModuleNotFoundError, an ImportError, which
    names all missing packages and the command that installs the extra.
    """
    names = [name for each in (extra, *_INCLUDED.get(extra, ())) for name in PACKAGES[each]]
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        packages, verb = ("package", "is") if len(missing) == 1 else ("packages", "are")
        raise ModuleNotFoundError(
            f"{user} needs the {packages} {', '.join(missing)}, which {verb} not installed: "
            f"pip install 'spark-queryable-state[{extra}]'{_advice_for_archives()}",
            name=missing[0],
        )


def _advice_for_archives() -> str:
    """What to do if this package is imported from a zip, as spark-submit --py-files does."""
    archive = next((path for path in Path(__file__).parents if path.suffix == ".zip"), None)
    if archive is None:
        return ""
    return (
        f" for this Python. {archive}, as --py-files, cannot bring packages with compiled parts; a "
        "packed environment with --archives can"
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
