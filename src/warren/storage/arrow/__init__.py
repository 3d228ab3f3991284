"""Arrow: scans records as columns, and packs columns as records."""
