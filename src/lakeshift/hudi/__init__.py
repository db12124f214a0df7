"""Hudi reads through Spark's DataSource V2. Writes are Hudi's own business and stay with it."""
