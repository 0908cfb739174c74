"""The files of a log, printed and checked without a broker."""
