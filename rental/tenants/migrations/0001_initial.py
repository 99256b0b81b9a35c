import django.contrib.postgres.fields
import django.core.serializers.json
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import pgtrigger.compiler
import pgtrigger.migrations
import rental.records.ids
import rental.tenants.fields
from django.conf import settings
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

# A partitioned table wants its key to hold ``at``; Django's state keeps ``id`` alone, which is what
# the code uses. Rows of a month without a partition fall into the default one, so that an insert
# never fails; records.housekeeping makes the months ahead (rental/records/partitions.py).
AUDIT_TABLE = """
CREATE TABLE tenants_auditevent (
    id uuid NOT NULL,
    at timestamptz NOT NULL,
    tenant_id uuid NULL,
    actor_kind varchar(8) NOT NULL,
    actor_id varchar(64) NOT NULL,
    verb varchar(64) NOT NULL,
    subject varchar(96) NOT NULL,
    before jsonb NULL,
    after jsonb NULL,
    request_id varchar(64) NULL,
    hash bytea NULL,
    PRIMARY KEY (id, at),
    CONSTRAINT audit_event_actor_is_known
        CHECK (actor_kind IN ('user', 'api_key', 'staff', 'system'))
) PARTITION BY RANGE (at);
CREATE INDEX audit_event_of_tenant ON tenants_auditevent (tenant_id, at DESC);
CREATE INDEX audit_event_of_subject ON tenants_auditevent (subject, at DESC);
CREATE TABLE tenants_auditevent_default PARTITION OF tenants_auditevent DEFAULT;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        # The exclusion constraints of billing and scheduler need it.
        BtreeGistExtension(),
        migrations.CreateModel(
            name='StaffRole',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('code', models.SlugField(max_length=32, unique=True, verbose_name='code')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('verbs', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), default=list, size=None, verbose_name='verbs')),
            ],
            options={
                'verbose_name': 'staff role',
                'verbose_name_plural': 'staff roles',
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('email', rental.tenants.fields.LowerEmailField(blank=True, max_length=254, null=True, unique=True, verbose_name='e-mail address')),
                ('phone', models.CharField(blank=True, help_text='In international form, for example +8613800000000.', max_length=16, null=True, unique=True, verbose_name='phone number')),
                ('name', models.CharField(blank=True, max_length=80, verbose_name='name')),
                ('language', models.CharField(default='zh-hans', max_length=16, verbose_name='language')),
                ('is_active', models.BooleanField(default=True, verbose_name='active')),
                ('is_staff', models.BooleanField(default=False, verbose_name='staff')),
                ('is_superuser', models.BooleanField(default=False, verbose_name='superuser')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
                ('staff_roles', models.ManyToManyField(blank=True, related_name='users', to='tenants.staffrole', verbose_name='staff roles')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('email__isnull', False), ('phone__isnull', False), _connector='OR'), name='user_has_email_or_phone'),
                    models.CheckConstraint(condition=models.Q(('email__isnull', True), models.Q(('email', django.db.models.functions.text.Lower('email')), models.Q(('email', ''), _negated=True)), _connector='OR'), name='user_email_is_lower_case'),
                    models.CheckConstraint(condition=models.Q(('phone__isnull', True), ('phone__regex', '^\\+[1-9][0-9]{6,14}$'), _connector='OR'), name='user_phone_is_in_international_form'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Consent',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('document', models.SlugField(max_length=32, verbose_name='document')),
                ('version', models.CharField(max_length=32, verbose_name='version')),
                ('at', models.DateTimeField(verbose_name='at')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='consents', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'consent',
                'verbose_name_plural': 'consents',
                'abstract': False,
                'constraints': [
                    models.UniqueConstraint(fields=('user', 'document', 'version'), name='consent_is_given_once_a_version'),
                ],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tenant_id', models.UUIDField()),
                ('key', models.CharField(max_length=255)),
                ('request_hash', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('running', 'running'), ('done', 'done')], default='running', max_length=8)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('body', models.JSONField(null=True)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['created_at'], name='idempotency_key_age'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('tenant_id', 'key'), name='idempotency_key_is_used_once_a_tenant'),
                    models.CheckConstraint(condition=models.Q(('state', 'running'), models.Q(('state', 'done'), ('status__isnull', False)), _connector='OR'), name='idempotency_key_that_is_done_has_an_answer'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True, verbose_name='slug')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('verification_level', models.CharField(choices=[('none', 'not verified'), ('contact', 'e-mail or phone verified'), ('person', 'person verified'), ('organization', 'organization verified')], default='none', max_length=12, verbose_name='verification level')),
                ('time_zone', models.CharField(default='Asia/Shanghai', max_length=64, verbose_name='time zone')),
                ('status', models.CharField(choices=[('active', 'active'), ('suspended', 'suspended')], default='active', max_length=9, verbose_name='status')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
            ],
            options={
                'verbose_name': 'tenant',
                'verbose_name_plural': 'tenants',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['active', 'suspended'])), name='tenant_status_is_known'),
                    models.CheckConstraint(condition=models.Q(('verification_level__in', ['none', 'contact', 'person', 'organization'])), name='tenant_verification_level_is_known'),
                    models.CheckConstraint(condition=models.Q(('slug__regex', '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')), name='tenant_slug_fits_a_host_name'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('owner', 'owner'), ('admin', 'administrator'), ('developer', 'developer'), ('billing', 'billing'), ('viewer', 'viewer')], max_length=9, verbose_name='role')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'membership',
                'verbose_name_plural': 'memberships',
                'constraints': [
                    models.UniqueConstraint(fields=('tenant', 'user'), name='membership_is_one_role_a_tenant'),
                    models.CheckConstraint(condition=models.Q(('role__in', ['owner', 'admin', 'developer', 'billing', 'viewer'])), name='membership_role_is_known'),
                ],
            },
        ),
        migrations.CreateModel(
            name='OutboxMessage',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('topic', models.CharField(max_length=64)),
                ('key', models.CharField(max_length=255)),
                ('payload', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('created_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('sent_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
            ],
            options={
                'indexes': [
                    models.Index(condition=models.Q(('sent_at__isnull', True)), fields=['due_at'], name='outbox_message_unsent'),
                    models.Index(condition=models.Q(('sent_at__isnull', False)), fields=['sent_at'], name='outbox_message_sent'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('topic', 'key'), name='outbox_message_is_put_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='PeriodicRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('slot', models.DateTimeField()),
                ('taken_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [
                    models.Index(models.F('slot'), name='periodic_run_age'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('name', 'slot'), name='periodic_slot_is_taken_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, verbose_name='slug')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('is_default', models.BooleanField(default=False, verbose_name='default')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='projects', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'project',
                'verbose_name_plural': 'projects',
                'constraints': [
                    models.UniqueConstraint(fields=('tenant', 'slug'), name='project_slug_is_unique'),
                    models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('tenant',), name='project_default_is_one'),
                ],
            },
        ),
        migrations.CreateModel(
            name='SshKey',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('public_key', models.TextField(verbose_name='public key')),
                ('fingerprint', models.CharField(max_length=64, verbose_name='fingerprint')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
                ('deleted_at', models.DateTimeField(blank=True, null=True, verbose_name='deleted at')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ssh_keys', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ssh_keys', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'SSH key',
                'verbose_name_plural': 'SSH keys',
                'indexes': [
                    models.Index(fields=['tenant', '-created_at'], name='ssh_key_of_tenant'),
                ],
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('deleted_at__isnull', True)), fields=('tenant', 'fingerprint'), name='ssh_key_is_known_once_a_tenant'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('kind', models.CharField(choices=[('person', 'person'), ('agent', 'agent')], default='person', max_length=6, verbose_name='kind')),
                ('prefix', models.CharField(max_length=8, unique=True, verbose_name='prefix')),
                ('digest', models.CharField(max_length=64)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), size=None, verbose_name='scopes')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False, verbose_name='created at')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires at')),
                ('last_used_at', models.DateTimeField(blank=True, null=True, verbose_name='last used at')),
                ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked at')),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to='tenants.project')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'API key',
                'verbose_name_plural': 'API keys',
                'indexes': [
                    models.Index(fields=['tenant', '-created_at'], name='api_key_of_tenant'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('kind__in', ['person', 'agent'])), name='api_key_kind_is_known'),
                    models.CheckConstraint(condition=models.Q(('kind', 'person'), ('expires_at__isnull', False), _connector='OR'), name='api_key_of_an_agent_expires'),
                    models.CheckConstraint(condition=models.Q(('expires_at__isnull', True), ('expires_at__gt', models.F('created_at')), _connector='OR'), name='api_key_expires_after_it_is_made'),
                    models.CheckConstraint(condition=models.Q(('digest__regex', '^[0-9a-f]{64}$')), name='api_key_digest_is_sha256'),
                ],
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(AUDIT_TABLE, 'DROP TABLE tenants_auditevent'),
            ],
            state_operations=[
                migrations.CreateModel(
                    name='AuditEvent',
                    fields=[
                        ('id', models.UUIDField(default=rental.records.ids.new_id, editable=False, primary_key=True, serialize=False)),
                        ('at', models.DateTimeField()),
                        ('tenant_id', models.UUIDField(null=True)),
                        ('actor_kind', models.CharField(choices=[('user', 'user'), ('api_key', 'API key'), ('staff', 'staff'), ('system', 'system')], max_length=8)),
                        ('actor_id', models.CharField(max_length=64)),
                        ('verb', models.CharField(max_length=64)),
                        ('subject', models.CharField(max_length=96)),
                        ('before', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                        ('after', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                        ('request_id', models.CharField(max_length=64, null=True)),
                        ('hash', models.BinaryField(max_length=32, null=True)),
                    ],
                    options={
                        'verbose_name': 'audit event',
                        'verbose_name_plural': 'audit events',
                        'abstract': False,
                        'indexes': [models.Index(fields=['tenant_id', '-at'], name='audit_event_of_tenant'), models.Index(fields=['subject', '-at'], name='audit_event_of_subject')],
                        'constraints': [models.CheckConstraint(condition=models.Q(('actor_kind__in', ['user', 'api_key', 'staff', 'system'])), name='audit_event_actor_is_known')],
                    },
                ),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='auditevent',
            trigger=pgtrigger.compiler.Trigger(name='rows_are_never_changed', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='5c2fa131e431050ef4b63a0b7965fbaed163b80d', operation='UPDATE', pgid='pgtrigger_rows_are_never_changed_2c519', table='tenants_auditevent', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='auditevent',
            trigger=pgtrigger.compiler.Trigger(name='rows_are_never_deleted', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='cf549396aa2aeb15ec7b35fb29fe93c86dcbb204', operation='DELETE', pgid='pgtrigger_rows_are_never_deleted_efefb', table='tenants_auditevent', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='consent',
            trigger=pgtrigger.compiler.Trigger(name='rows_are_never_changed', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;", hash='e808defbbff7ff7766518ec4a27192aa7ce748ee', operation='UPDATE', pgid='pgtrigger_rows_are_never_changed_0a36a', table='tenants_consent', when='BEFORE')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='consent',
            trigger=pgtrigger.compiler.Trigger(name='rows_are_never_deleted', sql=pgtrigger.compiler.UpsertTriggerSql(func="RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;", hash='909470d993ce266609d79a67533a8321f8f23f40', operation='DELETE', pgid='pgtrigger_rows_are_never_deleted_4df80', table='tenants_consent', when='BEFORE')),
        ),
    ]
