"""Pickling of values whose type is unknown."""

from __future__ import annotations

import pickle

_PROGRAM = b"__main__"
_PROTOCOL = 5


def pickled(value: object) -> bytes:
    """Pickles an object, with the classes and functions of the main program by value.

    The main module of a Spark worker is not the user's program, so a reference to it could not be
    resolved there. Raises what the object's pickling raises.
    """
    try:
        data = pickle.dumps(value, protocol=_PROTOCOL)
    except Exception:  # noqa: BLE001 - an object may raise anything; the next attempt tells
        data = _PROGRAM
    return _by_value(value) if _PROGRAM in data else data


def _by_value(value: object) -> bytes:
    # The copy of pyspark pickles the functions, too, so both give a class the same identity.
    from pyspark import cloudpickle

    found: bytes = cloudpickle.dumps(value, protocol=_PROTOCOL)  # type: ignore[no-untyped-call]
    return found
