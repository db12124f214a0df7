"""The transaction layer: what one commit adds and removes, and how it lands."""
