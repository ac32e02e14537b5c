"""Query side of a server: the public RPCs and the routers behind them.

`QueryableStateService` translates requests; a `Router` answers them: `LocalRouter` reads the state
of its own process, `ProxyRouter` calls the owners.
"""
