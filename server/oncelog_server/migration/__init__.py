"""`oncelog storage import` and `export`: data directories of Apache Kafka become oncelog's, and the
reverse."""
