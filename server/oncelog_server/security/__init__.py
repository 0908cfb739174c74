"""Principals, rights and authentication."""
