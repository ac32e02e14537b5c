"""Transport of a closed connection."""


class ClosedTransport:
    """Replaces the transport of a closed connection, so that the real one can be freed."""

    def is_closing(self) -> bool:
        """Returns True, as a closed transport of asyncio does."""
        return True

    def abort(self) -> None:
        """Does nothing: the connection is closed."""

    def get_write_buffer_size(self) -> int:
        """Returns 0: nothing is buffered."""
        return 0
