"""Conformance as clients see it. The same scripts run against oncelog and, as the control, Apache
Kafka."""
