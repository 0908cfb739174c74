"""Every order of steps in a small replicated cluster: two or three brokers and the metadata store.

The state (`states.py`, `world.py`) has four parts: the records of the store, with the versions that
a broker has yet to see; for each broker its log, the part of it that is on disk, and the memory of
its process; the requests, responses and writes in flight; all batches that were ever committed.

The steps (`steps.py`): a leader appends, or checks its ISR before or after the time for which a
follower may lag; a follower fetches; a request, response or write is delayed, or its response is
lost; the controller elects leaders, or a preferred leader; a broker sees the next version of the
metadata; a session ends; a broker is killed, loses its power, drains and stops, starts, registers.
A `Budget` limits each kind, so a search ends.

The code is the broker's own: `Partition`, `Replicas`, `IsrUpdates`, `LeaderFetcher`, `FollowerLog`,
`LeaderEpochs`, `read_partitions`, `isr_writes`, `elect_leaders`, `register`, `ClusterImage`. Three
parts are models: the log without files (`log_model.py`, compared with the real log by a test), the
store (`store_model.py`), and a few lines of the broker's edges (`broker_model.py`).

The model is smaller than a cluster:

- A time is either now, or longer ago than a follower may lag. The code asks nothing else about it.
- Each key of the store counts its revisions by itself (`store_model.py`).
- A fetch has no session at the leader, and gets all records at once. It is never parked: a parked
  fetch that wakes up has the effect of a response without records, and of another fetch.
- No leader is suspended by its clock (`self_fencing.py`). The rules must hold without clocks.
- The high watermark on disk is that of the last clean stop. A kill finds it as old as possible.
- A power loss drops everything that was not synced. Records are synced by a clean stop, and with
  `oncelog.flush.on.ack` by the flushes of a leader and the syncs of a follower.
- One broker at a time takes a step. The code of a step runs once for each state of a broker, and
  all worlds with this state share the result (`world.py`). No order of steps is left out.
"""
