"""The agent: what runs on GPU nodes. No Django here."""

__version__ = "0.1.0"
