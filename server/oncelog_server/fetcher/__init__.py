"""A follower's fetches from the leaders of its partitions, without IO (Kafka's
AbstractFetcherThread)."""
