"""The log cleaner at work: the choice of the next log, and its worker process."""
