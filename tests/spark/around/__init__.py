"""The parts around the data source: progress, requirements, packaging, the documents, the
example."""
