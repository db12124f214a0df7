"""What runs on executors: plain functions over Arrow. No Spark and no catalog in here."""
