"""A gRPC server on the event loop, straight on gRPC's core.

`grpc.aio` takes four turns of the loop, each with a hand-over between threads, and two tasks for
a unary call: 200 us of CPU where the core itself needs 30. Here a thread waits for the core, and
a call comes to the loop once, when its request is there, together with all others that are.

`grpc._cython.cygrpc`, what grpcio's own servers are written in, is not documented: only this
folder knows it.
"""

from queryable_state.server.grpc_core.server import GrpcServer

__all__ = ["GrpcServer"]
