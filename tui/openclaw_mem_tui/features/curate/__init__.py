"""The curate screen: candidates for MEMORY.md with evidence, their change and its effect."""
