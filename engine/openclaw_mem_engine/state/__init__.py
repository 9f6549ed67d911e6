"""What the program remembers beside the index: events and provider records."""
