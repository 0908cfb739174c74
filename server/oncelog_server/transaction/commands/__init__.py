"""The commands of one transactional id: each decides records and a response from its metadata."""
