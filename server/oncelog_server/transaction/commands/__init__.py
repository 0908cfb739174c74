"""The commands of one transactional id: each returns a decision (records and response) from its
metadata."""
