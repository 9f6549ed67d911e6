"""What QMD defines without any input or output: names, query grammar, prompts, snippets, contexts."""
