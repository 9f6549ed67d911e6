"""Ranking: a pure function from pool and knobs to a trace."""
