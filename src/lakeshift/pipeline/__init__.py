"""Pipelines: a YAML file that reads, transforms, writes and maintains tables, each step once whatever kills it."""
