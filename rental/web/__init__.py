"""HTML for browsers. For now one page that says what this is and where the doors are."""
