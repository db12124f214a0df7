"""The command line, one module a command group. Progress, colour and JSON live here; the work does not."""

from lakeshift.cli.app import main

__all__ = ["main"]
