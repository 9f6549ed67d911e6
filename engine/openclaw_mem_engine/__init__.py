"""Search the Markdown memory of AI agents, with an explanation for every rank and every absence."""
