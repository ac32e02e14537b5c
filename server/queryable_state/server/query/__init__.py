"""The query side of a server: the public RPCs, and the ways to an answer.

`QueryableStateService` translates, a `Router` answers: `LocalRouter` from the
state of its own process, `ProxyRouter` from whoever owns it.
"""
