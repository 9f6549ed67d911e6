"""``python -m openclaw_mem_engine``: the command without its installed script."""

import sys

from openclaw_mem_engine.cli.__main__ import run

if __name__ == "__main__":
    sys.exit(run())
