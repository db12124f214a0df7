"""lakeshift: lakehouse tables on PySpark that keep evolving."""

__version__ = "0.1.0"
