"""One topic-partition as its clients see it: leadership, watermarks, isolation, waiting
requests."""
