"""Programs that write parts of the source. They are not part of the package that is installed."""
