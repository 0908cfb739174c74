#!/bin/sh
# The Python of Spark's workers. It runs the installed Python `WORKER_PYTHON`.
#
# Spark's JVM puts its own Python code, as a zip, and a jar first on the path of each Python that it
# starts. Python keeps no byte code for a zip, so each worker would compile all its imports again,
# which takes longer than its task.
export PYTHONPATH="${PYTHONPATH##*/jars/spark-core_*.jar:}"
exec "$WORKER_PYTHON" "$@"
