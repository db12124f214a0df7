"""Where lakeshift meets Spark: the session, the executors, and kernels as Spark jobs."""
