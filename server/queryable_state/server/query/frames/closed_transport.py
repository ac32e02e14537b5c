"""The transport of a connection that is closed."""


class ClosedTransport:
    """Stands in for the transport, which nobody may hold any longer."""

    def is_closing(self) -> bool:
        """asyncio's."""
        return True

    def abort(self) -> None:
        """Nothing is left to end."""

    def get_write_buffer_size(self) -> int:
        """asyncio's."""
        return 0
