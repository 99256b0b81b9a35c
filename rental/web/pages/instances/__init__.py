"""The pages of instances: the list, one instance with its tabs, and the dialogs of its commands."""
