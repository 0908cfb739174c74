"""Kafka's command line tools under their own names, for scripts and health checks that were written
for Apache Kafka. The flags, the lines on standard output and the exit codes are those of the tools
of Apache Kafka 4.3.1. The image has them in /opt/kafka/bin.

`oncelog topics`, `groups` and so on are the tools for people. They take most of the same flags, but
print tables.
"""
