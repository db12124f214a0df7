"""Hudi reads through Spark's DataSource V2."""
