"""When memory was written and read: flushes, compactions, writes, searches and syncs on one axis of time."""
