"""Iceberg tables under any partition spec."""
