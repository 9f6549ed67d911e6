"""The external ``qmd``: its process, its folder, its collections and when they are updated."""
