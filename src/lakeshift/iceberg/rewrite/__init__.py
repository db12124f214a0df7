"""Compaction: which files are worth rewriting, and rewriting them, whatever specs they were written with."""
