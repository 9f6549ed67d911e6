"""Chat models on this machine; those behind OpenAI's interface are in ``providers.remote.openai_client``."""
