"""The index in a PostgreSQL server with pgvector: many agents on each, every row bound to its agent."""
