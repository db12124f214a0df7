"""DELETE, UPDATE and MERGE: rows are marked first, then moved, then one commit makes it so."""
