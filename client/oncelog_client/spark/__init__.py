"""`format("oncelog")` for PySpark: a source and an exactly-once sink, in Python alone.

The rest of the client imports none of these modules, which need the extra `[spark]`.
"""
