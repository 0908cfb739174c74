"""The bytes inside internal topics, producer snapshots, and the messages between members of a
group. They are the same as Kafka's, with the additions in `features`."""
