"""The console in Debian's Chromium, against the real web process and the test database."""
