"""Causes seven failures in the purchases pipeline. They are the failures that an article, the
transaction deep dive, describes."""
