#!/bin/sh
# The Python of Spark's workers. It runs the installed Python `WORKER_PYTHON`.
#
# Spark's JVM puts its own Python code, as a zip, and a jar first on the path of each Python that it
# starts. Python keeps no byte code for a zip, so each worker would compile all its imports again,
# which takes longer than its task.
export PYTHONPATH="${PYTHONPATH##*/jars/spark-core_*.jar:}"
if [ "$2" = pyspark.sql.streaming.python_streaming_source_runner ]; then
    exec "$WORKER_PYTHON" -I -S "${0%/*}/reader_stub.py" "$STREAM_READERS_OF_TESTS"
fi
# Spark has a setting for the daemon of the workers that run tasks, and none for the daemons of the
# workers that plan, commit and abort.
if [ "$2" = pyspark.daemon ]; then
    shift 2
    exec "$WORKER_PYTHON" -m tests.spark.worker_daemon "$@"
fi
exec "$WORKER_PYTHON" "$@"
