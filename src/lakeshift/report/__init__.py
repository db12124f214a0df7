"""A table's layout as a page to look at: what it is made of, what that costs, and what to do next. No Spark here."""
