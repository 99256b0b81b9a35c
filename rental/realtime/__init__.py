"""Browsers' WebSockets: what changed, told within a second; never the only way to hear of it."""
