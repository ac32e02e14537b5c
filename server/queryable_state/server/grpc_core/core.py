"""The undocumented and untyped base of grpcio's own servers, imported in one place."""

from __future__ import annotations

import importlib
from typing import Any

cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")
