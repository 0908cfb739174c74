"""Tests of the parts around Spark's data source: progress, requirements, packaging, the documents,
the example."""
