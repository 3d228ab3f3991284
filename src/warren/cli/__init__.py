"""The program `warren`: its commands, their options, and what they print."""
