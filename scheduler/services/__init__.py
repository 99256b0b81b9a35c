"""What the scheduler does; each function is one short transaction unless it says otherwise."""
