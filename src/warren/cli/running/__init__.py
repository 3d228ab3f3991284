"""What commands need to run: quantities, bodies, progress bars, Spark jobs, and errors."""
