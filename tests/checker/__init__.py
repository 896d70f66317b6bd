"""The checker: every example run, every output, number and picture held against the code."""
