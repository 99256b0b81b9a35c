"""One module a page: read what was asked, call the room that knows, show it."""
