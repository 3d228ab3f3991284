"""Arrow: records scanned as columns, and columns packed as records."""
