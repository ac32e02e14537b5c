"""What grpcio writes its own servers in: neither documented nor typed, so named in one place."""

from __future__ import annotations

import importlib
from typing import Any

cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")
