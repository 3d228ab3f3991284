"""The command line: what a person asks of a log, and how the answer looks."""
