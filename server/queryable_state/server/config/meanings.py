"""The docstrings under the fields of settings classes, for help texts and docs/settings.md."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def meanings_of(settings: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of its bases, each on one line."""
    found: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if dataclasses.is_dataclass(base):
            found |= _of_module(str(sys.modules[base.__module__].__file__)).get(base.__name__, {})
    return found


@functools.cache
def _of_module(path: str) -> Mapping[str, Mapping[str, str]]:
    """Docstrings by class and field; empty without sources."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, dict[str, str]] = {}
    for each in tree.body:
        if isinstance(each, ast.ClassDef):
            found[each.name] = {
                statement.target.id: " ".join(str(follower.value.value).split())
                for statement, follower in itertools.pairwise(each.body)
                if isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(follower, ast.Expr)
                and isinstance(follower.value, ast.Constant)
            }
    return found
