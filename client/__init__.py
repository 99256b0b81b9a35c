"""The Python SDK and the `tessera` command. No Django, no server code."""
