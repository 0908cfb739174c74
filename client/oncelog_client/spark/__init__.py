"""`format("oncelog")` for PySpark: a source and an exactly-once sink, in Python alone.

Nothing here is imported by the rest of the client: it needs the extra `[spark]`.
"""
