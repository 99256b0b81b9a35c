"""The operator's figures of a period find its charges without reading all of them."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_reversals_of_a_tenant")]
    operations = [
        migrations.AddIndex(
            model_name="charge",
            index=BrinIndex(fields=["created_at"], name="charge_booked", autosummarize=True),
        ),
    ]
