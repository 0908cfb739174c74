"""The table of all metrics. `docs/metrics.md` is generated from it.

A metric of Kafka has the name that Kafka's usual exporter gives it (jmx_exporter's example for
Kafka: `kafka_<domain>_<type>_<name>` in lower case, `PerSec` counters end in `_total`), so that
dashboards and alerts made for Kafka work. The names of other metrics begin with `oncelog_`."""

from __future__ import annotations

from typing import Final

from oncelog_server.group.classic.states import GroupState
from oncelog_server.metrics.exposition import COUNTER, GAUGE, SUMMARY, Metric

_TOPIC = ("topic",)
_CAUSE = ("cause",)
_PARTITION = ("topic", "partition")

# --- partitions

LAST_STABLE_OFFSET: Final = Metric(
    "oncelog_last_stable_offset",
    GAUGE,
    "All transactions below this offset are decided; read_committed readers end here (KIP-98).",
    _PARTITION,
)
LAST_STABLE_OFFSET_LAG: Final = Metric(
    "kafka_cluster_partition_laststableoffsetlag",
    GAUGE,
    "High watermark minus last stable offset: the offsets that open transactions hold back.",
    _PARTITION,
)
LOG_START_OFFSET: Final = Metric(
    "kafka_log_log_logstartoffset", GAUGE, "The first offset that can be read.", _PARTITION
)
LOG_END_OFFSET: Final = Metric(
    "kafka_log_log_logendoffset", GAUGE, "The offset of the next record.", _PARTITION
)
LOG_SIZE: Final = Metric("kafka_log_log_size", GAUGE, "Bytes of all segments.", _PARTITION)
LOG_SEGMENTS: Final = Metric(
    "kafka_log_log_numlogsegments", GAUGE, "Segments of the log.", _PARTITION
)
UNDER_REPLICATED: Final = Metric(
    "kafka_cluster_partition_underreplicated",
    GAUGE,
    "1 if this broker leads the partition and not all replicas are in sync.",
    _PARTITION,
)

# --- the broker's partitions together

PARTITION_COUNT: Final = Metric(
    "kafka_server_replicamanager_partitioncount", GAUGE, "Partitions on this broker."
)
LEADER_COUNT: Final = Metric(
    "kafka_server_replicamanager_leadercount", GAUGE, "Partitions that this broker leads."
)
OFFLINE_COUNT: Final = Metric(
    "kafka_server_replicamanager_offlinereplicacount",
    GAUGE,
    "Offline partitions (failed disk or corrupt log), and partitions with a write that the disk"
    " refuses, mostly because the disk is full; the write is retried every second.",
)
UNDER_REPLICATED_COUNT: Final = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions",
    GAUGE,
    "Partitions led here with replicas that are not in sync, without those that a reassignment"
    " adds.",
)
REASSIGNING_COUNT: Final = Metric(
    "kafka_server_replicamanager_reassigningpartitions",
    GAUGE,
    "Partitions led here that are being moved to other brokers.",
)
UNDER_MIN_ISR_COUNT: Final = Metric(
    "kafka_server_replicamanager_underminisrpartitioncount",
    GAUGE,
    "Partitions led here with fewer in-sync replicas than min.insync.replicas; they take no record"
    " with acks=all.",
)
AT_MIN_ISR_COUNT: Final = Metric(
    "kafka_server_replicamanager_atminisrpartitioncount",
    GAUGE,
    "Partitions led here with exactly min.insync.replicas replicas in sync, counted with at most"
    " the number of replicas.",
)
MISMATCHES: Final = Metric(
    "oncelog_replication_mismatches",
    GAUGE,
    "Replicated batches that contradict what this follower knows of their producers. Each is a"
    " defect, or damage on a disk.",
)
ISR_SHRINKS: Final = Metric(
    "kafka_server_replicamanager_isrshrinks_total",
    COUNTER,
    "Proposals to remove followers that lag from the ISR.",
)
ISR_EXPANDS: Final = Metric(
    "kafka_server_replicamanager_isrexpands_total",
    COUNTER,
    "Proposals to add followers that have caught up to the ISR.",
)
FAILED_ISR_UPDATES: Final = Metric(
    "kafka_server_replicamanager_failedisrupdates_total",
    COUNTER,
    "Proposals for the ISR that the metadata store has refused, or with an unknown outcome.",
)
FETCHER_MAX_LAG: Final = Metric(
    "kafka_server_replicafetchermanager_maxlag",
    GAUGE,
    "The largest number of committed records that a follower on this broker does not have yet.",
)
REPLICATED_BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    COUNTER,
    "Bytes of records that this broker has fetched from leaders.",
)
REPLICATED_BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    COUNTER,
    "Bytes of records that followers have fetched from this broker.",
)
REASSIGNED_BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_reassignmentbytesin_total",
    COUNTER,
    "The part of them that this broker has fetched as a replica that a reassignment adds.",
)
REASSIGNED_BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_reassignmentbytesout_total",
    COUNTER,
    "Bytes of records that replicas which a reassignment adds have fetched from this broker.",
)
PRODUCER_ID_COUNT: Final = Metric(
    "kafka_server_replicamanager_produceridcount",
    GAUGE,
    "Live producer ids, counted in each partition that remembers them (KIP-98, KIP-847).",
)
LATE_TRANSACTIONS: Final = Metric(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    GAUGE,
    "Partitions with an open transaction that had no write for transaction.max.timeout.ms plus"
    " five minutes (KIP-664).",
)
OPEN_TRANSACTIONS: Final = Metric(
    "oncelog_open_transactions",
    GAUGE,
    "Transactions with records but no marker yet, counted in each partition, by their state at the"
    " coordinator. Hanging: this broker is the only coordinator and does not know the transaction;"
    " Elsewhere: another broker may know the transaction.",
    ("state",),
)

# --- log cleaner

UNCLEANABLE: Final = Metric(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    GAUGE,
    "Logs that are not compacted: corrupt, or paused after a storage error or a defect.",
)
CLEANER_IDLE: Final = Metric(
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    GAUGE,
    "Time since the log cleaner last looked for a log to compact, in ms.",
)
COMPACTIONS: Final = Metric(
    "oncelog_compactions_total", COUNTER, "Passes of the log cleaner over a log since the start."
)

# --- topics

MESSAGES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_messagesin_total",
    COUNTER,
    "Records appended by this broker as the leader since the start, including markers.",
    _TOPIC,
)
BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesin_total",
    COUNTER,
    "Bytes appended by this broker as the leader since the start.",
    _TOPIC,
)
BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesout_total",
    COUNTER,
    "Bytes of records read by Fetch since the start.",
    _TOPIC,
)

# --- transaction coordinator

TRANSACTIONAL_IDS: Final = Metric(
    "oncelog_transactional_ids",
    GAUGE,
    "Transactional ids coordinated here, by state (KIP-98); a measure of the coordinator's memory.",
    ("state",),
)
OLDEST_TRANSACTION: Final = Metric(
    "oncelog_oldest_transaction_seconds",
    GAUGE,
    "Age of the oldest transaction that is not decided; 0 if there is none.",
)
TWO_PHASE_TRANSACTIONS: Final = Metric(
    "oncelog_two_phase_transactions",
    GAUGE,
    "Open transactions without a timeout: participants in two-phase commit (KIP-939).",
)
OLDEST_DECISION: Final = Metric(
    "oncelog_oldest_decided_transaction_seconds",
    GAUGE,
    "Time since the decision of the oldest transaction that is decided and not complete; 0 if there"
    " is none.",
)
MARKERS_PENDING: Final = Metric(
    "oncelog_markers_pending",
    GAUGE,
    "Markers of decided transactions that are not confirmed as written yet, including those in"
    " flight to other brokers.",
)
UNKNOWN_DESTINATION: Final = Metric(
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
    GAUGE,
    "The part of oncelog_markers_pending for partitions without a leader.",
)
UNAPPENDED: Final = Metric(
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
    GAUGE,
    "Transactions that have all markers, and no record of their completion yet.",
)
TRANSACTION_LOAD_MAX: Final = Metric(
    "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
    GAUGE,
    "Longest time to load a partition of __transaction_state since the start, in ms.",
)
TRANSACTION_LOAD_AVERAGE: Final = Metric(
    "kafka_server_transaction_coordinator_metrics_partition_load_time_avg",
    GAUGE,
    "Average time to load a partition of __transaction_state since the start, in ms.",
)

TRANSACTIONS: Final = Metric(
    "oncelog_transactions_total",
    COUNTER,
    'Transactions decided since the start. The cause is "client" if the producer requested the'
    " decision. The other causes belong to aborts that the producer did not request.",
    ("outcome", "cause"),
)
FENCED: Final = Metric(
    "oncelog_producers_fenced_total",
    COUNTER,
    "Producers fenced from their transactional id since the start, by cause.",
    _CAUSE,
)
REFUSED: Final = Metric(
    "oncelog_fenced_requests_total",
    COUNTER,
    "Requests of fenced producers since the start, by the cause of the fence; unknown if the broker"
    " has no record of the cause.",
    _CAUSE,
)

PRODUCER_IDS_REFUSED: Final = Metric(
    "oncelog_producer_ids_refused_total",
    COUNTER,
    "Requests for a producer id, and first batches of a producer id, that were refused since the"
    " start, by the setting that limits them.",
    ("setting",),
)

# --- group coordinator

GROUP_LOAD_MAX: Final = Metric(
    "kafka_server_group_coordinator_metrics_partition_load_time_max",
    GAUGE,
    "Longest time to load a partition of __consumer_offsets since the start, in ms.",
)
GROUP_LOAD_AVERAGE: Final = Metric(
    "kafka_server_group_coordinator_metrics_partition_load_time_avg",
    GAUGE,
    "Average time to load a partition of __consumer_offsets since the start, in ms.",
)
GROUPS: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroups", GAUGE, "Groups coordinated here."
)
GROUPS_IN: Final = {
    state.value: Metric(
        f"kafka_coordinator_group_groupmetadatamanager_numgroups{state.value.lower()}",
        GAUGE,
        f"Groups coordinated here in state {state.value}.",
    )
    for state in GroupState
}
GROUP_OFFSETS: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    GAUGE,
    "Committed offsets of the groups coordinated here.",
)

_GROUP_PARTITION = ("consumergroup", "topic", "partition")
GROUP_LAG: Final = Metric(
    "kafka_consumergroup_lag",
    GAUGE,
    "Records that a read_committed reader of the group can get now: from its committed offset to"
    " the last stable offset, without markers and aborted records. A long range is"
    " counted over several scrapes. Until then the value is the difference of the two offsets, an"
    " upper bound.",
    _GROUP_PARTITION,
)
GROUP_HELD_BACK: Final = Metric(
    "oncelog_group_held_back_records",
    GAUGE,
    "Records above the last stable offset, which the group gets only when the open transactions"
    " before them are decided.",
    _GROUP_PARTITION,
)
GROUP_LAG_OMITTED: Final = Metric(
    "oncelog_group_lag_omitted",
    GAUGE,
    "Number of committed offsets without a lag on the page. Only the first 10,000 have one.",
)

# --- requests and connections

REQUESTS: Final = Metric(
    "kafka_network_requestmetrics_requests_total",
    COUNTER,
    "Requests since the start, by API and version.",
    ("request", "version"),
)
ERRORS: Final = Metric(
    "kafka_network_requestmetrics_errors_total",
    COUNTER,
    "Error codes in responses since the start, by API. As in Kafka, each code of a response counts,"
    " NONE too.",
    ("request", "error"),
)
TOTAL_TIME: Final = Metric(
    "kafka_network_requestmetrics_totaltimems",
    SUMMARY,
    "Time from a complete request to its response, in ms. As in Kafka, the time of a Fetch contains"
    " its wait for records. The quantiles are those of the last one to two minutes with a scrape.",
    ("request",),
)
FLUSH_TIME: Final = Metric(
    "kafka_log_logflushstats_logflushrateandtimems",
    SUMMARY,
    "Time of a sync, which makes all logs with new records durable, in ms.",
)
LOOP_LAG: Final = Metric(
    "oncelog_loop_lag_ms",
    SUMMARY,
    "Time by which the event loop calls a timer too late, in ms: other requests hold it up.",
)
CONNECTIONS: Final = Metric(
    "kafka_server_socket_server_metrics_connection_count",
    GAUGE,
    "Open connections.",
    ("listener",),
)
CLIENTS: Final = Metric(
    "kafka_server_socket_server_metrics_connections",
    GAUGE,
    "Open connections by the name and version of the client's software (KIP-511). Older clients are"
    " unknown.",
    ("clientSoftwareName", "clientSoftwareVersion", "listener"),
)
CONNECTIONS_MADE: Final = Metric(
    "kafka_server_socket_server_metrics_connection_creation_total",
    COUNTER,
    "Connections accepted since the start, including those above a limit.",
)
FAILED_AUTHENTICATIONS: Final = Metric(
    "kafka_server_socket_server_metrics_failed_authentication_total",
    COUNTER,
    "Connections that failed to authenticate, by TLS or SASL, since the start.",
    ("listener",),
)
CERTIFICATE_EXPIRY: Final = Metric(
    "oncelog_certificate_expiry_timestamp_seconds",
    GAUGE,
    "Time at which the certificate of a listener with TLS expires, or that of an issuer in its"
    " chain, in seconds since 1970.",
    ("listener",),
)
EXPIRED_SESSIONS: Final = Metric(
    "kafka_server_socket_server_metrics_expired_connections_killed_count",
    GAUGE,  # a counter's name would end in _total
    "Connections closed since the start because their clients did not authenticate again in time"
    " (KIP-368).",
    ("listener",),
)
DENIED: Final = Metric(
    "oncelog_authorization_denied_total",
    COUNTER,
    "Rights that the authorizer denied since the start. Kafka has only a rate per minute.",
)
ACLS: Final = Metric(
    "kafka_server_plugins_acls_total_count", GAUGE, "Access rules (ACLs) of the authorizer."
)
FETCH_SESSIONS: Final = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    GAUGE,
    "Fetch sessions in use (KIP-227).",
)

# --- cluster

ACTIVE_CONTROLLER: Final = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount",
    GAUGE,
    "1 if this broker is the controller.",
)
GLOBAL_TOPICS: Final = Metric(
    "kafka_controller_kafkacontroller_globaltopiccount", GAUGE, "Topics of the cluster."
)
GLOBAL_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, "Partitions of the cluster."
)

OFFLINE_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    GAUGE,
    "Partitions of the cluster without a leader, or with a log that this broker cannot use.",
)
IMBALANCED_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    GAUGE,
    "Partitions of the cluster that their first replica does not lead.",
)
ACTIVE_BROKERS: Final = Metric(
    "kafka_controller_kafkacontroller_activebrokercount",
    GAUGE,
    "Brokers of the cluster that are alive.",
)
FENCED_BROKERS: Final = Metric(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    GAUGE,
    "Brokers of the cluster that have registered and are not alive.",
)
BROKER_STATE: Final = Metric(
    "kafka_server_kafkaserver_brokerstate",
    GAUGE,
    "3: running. 6: the broker moves its leaders to other brokers before it stops.",
)
STORE_SILENCE: Final = Metric(
    "oncelog_metadata_store_silence_ms",
    GAUGE,
    "Time since the metadata store (etcd) last responded to this broker, 0 while it responds. A"
    " broker leads nothing from broker.session.timeout.ms on.",
)

# --- disk

DISK_SIZE: Final = Metric(
    "oncelog_disk_size_bytes", GAUGE, "Size of the disk with the data directory; -1 if unknown."
)
DISK_FREE: Final = Metric(
    "oncelog_disk_free_bytes",
    GAUGE,
    "Bytes that the broker may still write to that disk (KIP-827); -1 if unknown.",
)

# --- process

BUILD_INFO: Final = Metric(
    "oncelog_build_info", GAUGE, "Always 1; the version is the label.", ("version",)
)
RESIDENT_BYTES: Final = Metric(
    "process_resident_memory_bytes", GAUGE, "Memory of the broker's process."
)
CPU_SECONDS: Final = Metric(
    "process_cpu_seconds_total", COUNTER, "Processor time of the broker's process."
)
START_TIME: Final = Metric(
    "process_start_time_seconds", GAUGE, "Start time of the broker, in seconds since the epoch."
)

METRICS: Final = tuple(
    metric
    for row in globals().copy().values()
    for metric in (row.values() if row is GROUPS_IN else (row,))
    if isinstance(metric, Metric)
)
