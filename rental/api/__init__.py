"""The REST API under /v1: parses, asks one domain service, presents. It decides nothing."""
