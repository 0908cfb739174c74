"""What tests import: brokers, a proxy, requests by hand, waiting. It imports no test."""
