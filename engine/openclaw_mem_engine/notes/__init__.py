"""Changes of notes: proposed as a diff, written atomically, undone. The only code that writes Markdown."""
