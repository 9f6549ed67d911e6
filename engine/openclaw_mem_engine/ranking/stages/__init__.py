"""The stages of a ranking: plain functions over a ``RankingState``, named by profiles."""
