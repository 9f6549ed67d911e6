"""What each pane says, as styled lines of plain data. Nothing here imports Textual or computes a ranking."""
