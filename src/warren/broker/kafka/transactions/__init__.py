"""Transactions of Kafka clients, built on Warren's transactions: no log contains their messages before the commit."""
