"""Billing of a tenant: the balance, the ledger, and what each month was charged for."""
