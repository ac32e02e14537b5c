"""PyFlink's module names for programs that move to this library."""

from queryable_state.streaming.compat.pyflink_alias import install_pyflink_alias

__all__ = ["install_pyflink_alias"]
