"""Read-only views of an opened memory: files, chunks, findings, events."""
