"""What is around the data source: progress, requirements, packaging, the documents, the example."""
