"""Reading: finds the record of a number on disk, and makes messages of records."""
