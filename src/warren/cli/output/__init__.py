"""What commands print: tables for people, and JSON for programs."""
