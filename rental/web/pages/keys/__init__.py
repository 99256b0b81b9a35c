"""Keys of a tenant: SSH keys, API keys and secrets, each with its own address."""
