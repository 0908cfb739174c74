"""Conformance seen by clients: the same scripts run against oncelog and, as a control, Apache
Kafka."""
