"""The workbench's screens, one folder each."""
