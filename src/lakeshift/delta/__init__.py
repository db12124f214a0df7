"""The Delta sink and its schema policy."""
