#!/bin/sh
# A Python of Spark's, as `WORKER_PYTHON` has it installed.
#
# Spark's JVM puts its Python in a zip, and a jar, first on the path of each Python that it starts:
# each would compile all that it imports once more, which takes it longer than its task.
export PYTHONPATH="${PYTHONPATH##*/jars/spark-core_*.jar:}"
exec "$WORKER_PYTHON" "$@"
