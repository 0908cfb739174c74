"""The commands of one transactional id. Each command reads the metadata of the id, and returns a
decision: records and response."""
