"""A transactional copy loop with an audit. Broker and clients get kill -9 at random moments."""
