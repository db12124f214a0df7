"""The command line, one module a command group. Progress, colour and JSON live here; the work does not."""

from __future__ import annotations


def main() -> None:
    """The entry point of the ``lakeshift`` script."""
    try:
        from lakeshift.cli.app import main as run_command
        from lakeshift.cli.startup import end_at_once
    except KeyboardInterrupt:  # Even an interrupt in the first moment ends without a trace.
        raise SystemExit(130) from None
    try:
        run_command()
    except SystemExit as end:
        end_at_once(end.code)
        raise
