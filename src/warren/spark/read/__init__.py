"""Reading a store on Spark: plans, splits and the readers of a batch and of a stream."""
