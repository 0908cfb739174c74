"""The log cleaner at work: the choice of the next log, its worker process, and the checkpoint."""
