"""A long mixed run whose processes are killed all the time, and a checker that reads their histories."""
