"""The terminal workbench of openclaw-mem."""
