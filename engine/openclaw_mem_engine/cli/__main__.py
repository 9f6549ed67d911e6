"""The command ``openclaw-mem``, also as ``python -m openclaw_mem_engine.cli``."""

import sys


def run() -> int:
    """Run the command of this process; returns its exit code. Ctrl-C while the program is loaded ends it as
    later: with exit code 130 and without a traceback."""
    try:
        from openclaw_mem_engine.cli import main

        return main.run()
    except KeyboardInterrupt:
        print("openclaw-mem: Stopped before it began.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
