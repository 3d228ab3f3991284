"""Quotas: how much users, clients and addresses may do per second, and how much they may own."""
