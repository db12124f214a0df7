"""lakeshift: lakehouse tables on PySpark that keep evolving."""

import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lakeshift.lake import Lake, connect
    from lakeshift.pipeline.runner import plan_pipeline, run_pipeline

__all__ = ["Lake", "__version__", "connect", "plan_pipeline", "run_pipeline"]

logging.getLogger("lakeshift").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    # Imported when first used: executors load this package for its kernels alone.
    if name in ("Lake", "connect"):
        from lakeshift import lake

        return getattr(lake, name)
    if name in ("plan_pipeline", "run_pipeline"):
        from lakeshift.pipeline import runner

        return getattr(runner, name)
    raise AttributeError(f"module 'lakeshift' has no attribute {name!r}")
