"""Jobs on Spark that commands run."""
