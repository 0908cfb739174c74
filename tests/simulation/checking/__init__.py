"""The checkers. They know only the protocol, and import neither the server nor the client nor their
codecs.

`history` and `anomalies` check the observations of clients. `logs`, `invariants` and `decisions`
check the files. `promises` and `live` compare responses and the running broker with the files.
"""
