"""The staff roles that a new deployment starts with; an operator changes them in the admin."""

from django.db import migrations

ROLES = [
    ("support", "Support", ["tenants:read", "rental:read", "scheduler:read", "billing:read"]),
    (
        "finance",
        "Finance",
        ["tenants:read", "billing:read", "billing:write", "billing:credit", "rental:read"],
    ),
    (
        "operator",
        "Operator",
        [
            "tenants:read",
            "tenants:write",
            "rental:read",
            "rental:write",
            "scheduler:read",
            "scheduler:write",
            "billing:read",
        ],
    ),
]


def add_roles(apps, schema_editor):
    StaffRole = apps.get_model("tenants", "StaffRole")
    for code, name, verbs in ROLES:
        StaffRole.objects.get_or_create(code=code, defaults={"name": name, "verbs": verbs})


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_audit_months")]
    operations = [migrations.RunPython(add_roles, migrations.RunPython.noop)]
