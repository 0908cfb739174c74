"""The log cleaner at work: which log is next, who does the work, and the checkpoint."""
