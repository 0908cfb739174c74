"""The running log cleaner: choice of the next log, its worker process, and the checkpoint."""
