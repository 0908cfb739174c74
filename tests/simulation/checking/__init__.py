"""What must hold, judged from the protocol alone: nothing here imports the server, the client or
their codecs.

`history` and `anomalies` judge what clients saw, `logs`, `invariants` and `decisions` what is in
the files, `promises` and `live` whether answers and the running broker agree with them.
"""
