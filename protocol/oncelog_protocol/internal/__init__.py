"""The formats of records in internal topics, of producer snapshots, and of the data that members of
a group exchange. They are the same as Kafka's, with the additions in `features`."""
