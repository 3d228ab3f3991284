"""Quotas: how much users, clients and addresses may do in a second, and how much they may have."""
