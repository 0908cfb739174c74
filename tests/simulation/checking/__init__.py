"""The checkers. They judge by the protocol alone, and import neither the server nor the client nor
their codecs.

`history` and `anomalies` judge what clients saw. `logs`, `invariants` and `decisions` judge the
files. `promises` and `live` compare responses and the running broker with them.
"""
