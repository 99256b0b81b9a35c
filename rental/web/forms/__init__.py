"""Forms: what a page takes, checked before it reaches the domain."""
