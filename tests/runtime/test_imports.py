"""Imports of the runtime before a task runs."""

from __future__ import annotations

import ast
from pathlib import Path

from queryable_state.streaming import runtime


def test_grpc_is_imported_only_where_a_task_runs() -> None:
    """Spark forks its workers; gRPC must not be there before."""
    importers = {"backend_client", "joint_calls"}
    for path in Path(runtime.__file__).parent.rglob("*.py"):
        if path.stem in importers:
            continue
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in getattr(node, "names", ())]
            names.append(getattr(node, "module", None) or "")
            used = {part for name in names for part in name.split(".")}
            assert not used & ({"grpc"} | importers), f"{path.name}:{node.lineno}"
