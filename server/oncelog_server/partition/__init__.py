"""One topic-partition as its clients see it: leadership, watermarks, isolation, and who waits for
what."""
