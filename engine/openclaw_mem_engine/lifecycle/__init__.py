"""What happens to a conversation: the flush before a compaction, the snapshot at its end, and what a new one
starts with. OpenClaw's own files are only read."""
