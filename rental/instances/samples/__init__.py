"""Samples of instances for charts: the last hour in Valkey, minutes in a table. Never money."""
