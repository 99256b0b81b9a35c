"""A tenant's reversals are found by an index: every page that shows a month reads them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0002_sql")]
    operations = [
        migrations.AddIndex(
            model_name="reversal",
            index=models.Index(fields=["tenant", "id"], name="reversal_page"),
        ),
    ]
