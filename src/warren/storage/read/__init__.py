"""Reading: from a number to the record on disk, and from records to messages."""
