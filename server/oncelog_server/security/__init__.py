"""Principals and authorization. There is no authentication yet: every client is ANONYMOUS and may
do everything."""
