"""The pages, one module a room: read the input, one domain call, one template."""
