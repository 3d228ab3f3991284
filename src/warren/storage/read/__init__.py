"""Reading: finds the record of a number on disk, and turns records into messages."""
