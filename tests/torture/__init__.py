"""A transactional copy loop under kill -9 of broker and clients at random moments, audited."""
