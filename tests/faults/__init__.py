"""Tests of a real broker process with damaged files, a failing disk, too few file descriptors,
hostile clients and signals."""
