"""Billing's arithmetic. Pure: whole numbers and fractions, no clock, no framework, no database."""
