"""The report without a browser: its numbers, its advice, and how safely and tightly it is packed."""
