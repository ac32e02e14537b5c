"""gRPC channel options of every connection between the processes of a job and its clients."""

from __future__ import annotations

ChannelOptions = tuple[tuple[str, int], ...]


def channel_options(
    *, longest_reconnect_ms: int = 1000, own_connections: bool = False
) -> ChannelOptions:
    """The options of one channel.

    `own_connections` ends the TCP connections, and the memory of their failures, with the
    channel; otherwise channels to one address share them.
    """
    options = (
        # The receiver enforces its own limits, which are above gRPC's default of 4 MiB. A lease
        # names every subtask of a server, and a location every owner: neither has a small bound.
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # A restarted process is found again well within one lease.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", longest_reconnect_ms),
        # All processes are peers in one cluster: an HTTP proxy of the environment is not used.
        ("grpc.enable_http_proxy", 0),
    )
    return (*options, ("grpc.use_local_subchannel_pool", 1)) if own_connections else options
