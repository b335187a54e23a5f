#!/usr/bin/env python3
"""Creates the small Healthchecks databases that tests import, with invented data, in each supported format.

    python3 -m venv VENV && VENV/bin/pip install 'django==5.2.*' 'psycopg[binary]'
    VENV/bin/python .ci/oracle/healthchecks.py [--pings N] [DIRECTORY]

Django itself writes them, so times, UUIDs, durations and bytes have its formats: hc.sqlite, and, through a temporary PostgreSQL, hc.sql
and hc.json. Only names and types of the columns are from Healthchecks. PostgreSQL's initdb, pg_ctl and pg_dump must be installed; if
this runs as root, they run as the user postgres. With --pings, only hc.sqlite is created, with this number of additional pings.
"""

import argparse
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import uuid

import django
from django.apps import AppConfig, apps
from django.conf import settings

UTC = datetime.timezone.utc
SECRET_KEY = "s3cret-of-the-old-server"
START = datetime.datetime(2024, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)

# Columns: c text, C text or none, T long text, u UUID, U UUID or none, b flag, i number, I number or none, d length of time,
# D length of time or none, t time, P time or none, r bytes or none, a address or none; > another table.
ACCOUNTS = {
    "Profile": "ping_log_limit:i user>auth.User",
    "Project": "code:u name:c200 owner>auth.User api_key:c128 api_key_readonly:c128 badge_key:c150 ping_key:C128 show_slugs:b",
    "Member": "user>auth.User project>accounts.Project transfer_request_date:P role:c1",
}
API = {
    "Check": "name:c100 slug:c100 tags:c500 code:u desc:T project>accounts.Project created:t kind:c10 timeout:d grace:d schedule:c100 "
    "tz:c36 filter_subject:b filter_body:b filter_http_body:b filter_default_fail:b start_kw:c200 success_kw:c200 failure_kw:c200 "
    "methods:c30 manual_resume:b badge_key:u n_pings:i last_ping:P last_start:P last_start_rid:U last_duration:D "
    "has_confirmation_link:b alert_after:P status:c6",
    "Ping": "n:I owner>api.Check created:t kind:C6 scheme:c10 remote_addr:a method:c10 ua:c200 body_raw:r object_size:I exitstatus:I rid:U",
    "Channel": "name:c100 code:u project>accounts.Project created:t kind:c20 value:T email_verified:b disabled:b last_notify:P "
    "last_error:c200 checks*api.Check",
    "Flip": "owner>api.Check created:t processed:P old_status:c8 new_status:c8 reason:c10",
}


def models(label, tables):
    from django.db import models as m

    def field(kind):
        letter, size = kind[0], int(kind[1:] or 0)
        return {
            "c": lambda: m.CharField(max_length=size, blank=True),
            "C": lambda: m.CharField(max_length=size, null=True),
            "T": lambda: m.TextField(blank=True),
            "u": m.UUIDField,
            "U": lambda: m.UUIDField(null=True),
            "b": lambda: m.BooleanField(default=False),
            "i": m.IntegerField,
            "I": lambda: m.IntegerField(null=True),
            "d": m.DurationField,
            "D": lambda: m.DurationField(null=True),
            "t": m.DateTimeField,
            "P": lambda: m.DateTimeField(null=True),
            "r": lambda: m.BinaryField(null=True),
            "a": lambda: m.GenericIPAddressField(null=True),
        }[letter]()

    for name, columns in tables.items():
        members = {"__module__": f"{label}.models", "Meta": type("Meta", (), {"app_label": label})}
        for column in columns.split():
            if ">" in column:
                column, other = column.split(">")
                members[column] = m.ForeignKey(other, m.CASCADE, related_name="+")
            elif "*" in column:
                column, other = column.split("*")
                members[column] = m.ManyToManyField(other)
            else:
                column, kind = column.split(":")
                members[column] = field(kind)
        type(name, (m.Model,), members)


def configure(directory, socket):
    place = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(directory / "hc.sqlite")}
    databases = {"default": place}
    if socket:
        databases["pg"] = {"ENGINE": "django.db.backends.postgresql", "NAME": "hc", "HOST": socket, "USER": "postgres"}
    installed = ["django.contrib.contenttypes", "django.contrib.auth"]
    settings.configure(DATABASES=databases, INSTALLED_APPS=installed, USE_TZ=True, SECRET_KEY=SECRET_KEY, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
    import types, sys

    for label, tables in [("accounts", ACCOUNTS), ("api", API)]:
        module = types.ModuleType(label)
        module.__path__ = [str(directory)]
        sys.modules[label] = module
        config = AppConfig(label, module)
        config.path, config.label = str(directory), label
        settings.INSTALLED_APPS.append(config)
    # The apps are objects, which django.setup does not accept: their models are registered by hand.
    given = [app for app in settings.INSTALLED_APPS if isinstance(app, AppConfig)]
    settings.INSTALLED_APPS[:] = [app for app in settings.INSTALLED_APPS if not isinstance(app, AppConfig)]
    django.setup()
    for config in given:
        apps.app_configs[config.label] = config
        config.apps = apps
        config.models = apps.all_models[config.label]
        config.models_module = sys.modules[config.label]
    for label, tables in [("accounts", ACCOUNTS), ("api", API)]:
        models(label, tables)
    apps.clear_cache()


def code(name):
    return uuid.UUID(bytes=hashlib.sha256(name.encode()).digest()[:16], version=4)


def hashed(key):
    return key[4:12] + "." + hmac.new(SECRET_KEY.encode(), key.encode(), "sha256").hexdigest()


def after(**delta):
    return START + datetime.timedelta(**delta)


def tables():
    return {name: apps.get_model(f"{label}.{name}") for label, names in [("accounts", ACCOUNTS), ("api", API)] for name in names}


def people(t):
    from django.contrib.auth.models import User

    argon2 = "argon2$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$" + "A" * 43
    ann = User.objects.create(username="ann", email="ann@example.org", password=argon2, date_joined=after(days=-30), is_superuser=True)
    bob = User.objects.create(username="bob", email="bob@example.org", password="pbkdf2_sha256$1$a$b", date_joined=after(days=-20))
    eve = User.objects.create(username="eve", email="eve@example.org", password="!", date_joined=after(days=-10), is_active=False)
    t["Profile"].objects.create(user=ann, ping_log_limit=100)
    t["Profile"].objects.create(user=bob, ping_log_limit=3)

    def project(name, owner, **more):
        return t["Project"].objects.create(**{"code": code("p" + name), "name": name, "owner": owner, "badge_key": str(code("b" + name)), **more})

    home = project("Home", ann, api_key="A" * 16 + "plain-key_123456", api_key_readonly=hashed("hcr_" + "R" * 28), ping_key="k" * 22)
    nameless = project("", ann, api_key=hashed("hcw_" + "W" * 28))
    twin = project("Home", bob, code=code("twin"), badge_key="bk-1", ping_key="short")
    project("ž" * 150, bob)
    t["Member"].objects.create(user=bob, project=home, role="r")
    t["Member"].objects.create(user=eve, project=home, role="w")
    t["Member"].objects.create(user=eve, project=twin, role="m")
    return home, nameless, twin


class Checks:
    """Creates checks, a minute apart."""

    def __init__(self, t):
        self.t, self.count = t, 0

    def make(self, project, name, **more):
        self.count += 1
        given = {
            "name": name, "slug": name.lower().replace(" ", "-"), "code": code("c" + name), "badge_key": code("cb" + name),
            "project": project, "created": after(minutes=self.count), "kind": "simple", "timeout": datetime.timedelta(days=1),
            "grace": datetime.timedelta(hours=1), "schedule": "* * * * *", "tz": "UTC", "status": "new", "n_pings": 0,
        }
        return self.t["Check"].objects.create(**{**given, **more})

    def ping(self, check, n, **more):
        given = {
            "owner": check, "n": n, "created": after(hours=n or 0, microseconds=n or 0), "scheme": "https", "method": "GET",
            "remote_addr": "192.0.2.7", "ua": "curl/8.0",
        }
        return self.t["Ping"].objects.create(**{**given, **more})

    def flip(self, check, at, old, new, **more):
        given = {"owner": check, "created": at, "old_status": old, "new_status": new, "processed": at}
        return self.t["Flip"].objects.create(**{**given, **more})


def checks(t, home, nameless, twin):
    c = Checks(t)
    backup = c.make(home, "Backup", kind="cron", schedule="30 3 * * *", tz="Europe/Riga", status="up", n_pings=150, last_ping=after(hours=150),
                    last_duration=datetime.timedelta(days=1, seconds=5, microseconds=250), tags="prod db", desc="Nightly,\twith \"quotes\"\nand ž",
                    start_kw="begin", success_kw="ok, fine", failure_kw="error", filter_subject=True, filter_http_body=True, methods="POST")
    bodies = [None, b"", b"hello", b"\x00\xff\\N\n\t\\.", b"x" * 100, bytes(range(256)), "ž".encode() * 150]
    for n in range(31, 151):
        kind = [None, "start", "fail", "log", "ign", ""][n % 6]
        c.ping(backup, n, kind=kind, body_raw=bodies[n % 7], exitstatus=[None, 0, 255][n % 3], rid=code("r") if n % 4 == 0 else None)
    c.ping(backup, None)
    router = c.make(home, "Router", timeout=datetime.timedelta(minutes=5), grace=datetime.timedelta(minutes=2), status="down", n_pings=4,
                    last_ping=after(days=1))
    for n in (1, 3, 4, 5):
        c.ping(router, n, remote_addr="2001:db8::1" if n > 1 else None, scheme="email" if n == 4 else "http", method="" if n == 4 else "PROPFIND")
    c.flip(router, after(days=0), "new", "up")
    c.flip(router, after(days=60, microseconds=7), "up", "down", reason="timeout")
    unheard = c.make(home, "Unheard", status="down", n_pings=1, last_ping=after(days=2))
    c.ping(unheard, 1, kind="fail", created=after(days=2), object_size=5000)
    c.flip(unheard, after(days=2), "new", "down", reason="fail", processed=None)
    c.make(home, "Running", status="new", last_start=after(days=3), last_start_rid=code("run"))
    c.make(home, "Paused", status="paused", manual_resume=True, kind="oncalendar", schedule="Mon..Fri *-*-* 08:00", tz="America/New_York")
    c.make(nameless, "", slug="", code=code("unnamed"), badge_key=code("unnamed badge"))
    tiny = c.make(twin, "Tiny log", status="up", n_pings=10, last_ping=after(hours=10))
    for n in range(1, 11):
        c.ping(tiny, n)
    return [backup, router]


def channels(t, home, twin, assigned):
    text = json.dumps
    webhook = {
        "method_down": "POST", "url_down": "https://example.org/down?$NAME", "body_down": "{\"s\": \"$STATUS\"}", "headers_down": {"X-A": "b"},
        "method_up": "GET", "url_up": "https://example.org/up", "body_up": "", "headers_up": {},
    }
    phone = text({"value": "+37120000000", "up": True, "down": True})
    values = {
        "email": text({"value": "ops@example.org", "up": False, "down": True}),
        "webhook": text(webhook),
        "slack": text({"incoming_webhook": {"url": "https://hooks.slack.com/services/T0/B0/abc", "channel": "#x"}, "team_name": "x"}),
        "mattermost": "https://chat.example.org/hooks/abc",
        "discord": text({"webhook": {"url": "https://discordapp.com/api/webhooks/1/abc"}}),
        "rocketchat": "https://chat.example.org/hooks/1/abc",
        "googlechat": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t",
        "msteamsw": "https://example.webhook.powerplatform.example/workflows/abc",
        "victorops": "https://alert.victorops.com/integrations/generic/1/alert/abc/ops",
        "spike": "https://hooks.spike.sh/abc/push-events",
        "pagertree": "https://api.pagertree.com/integration/int_abc",
        "telegram": text({"id": -1001234567890, "thread_id": 7, "type": "supergroup", "name": "x"}),
        "po": "user-key|2|0",
        "pushbullet": "o.abcdef",
        "opsgenie": text({"key": "0123-abc", "region": "eu"}),
        "pd": text({"service_key": "0123456789abcdef0123456789abcdef", "account": "x"}),
        "ntfy": text({"topic": "backups-x7Qm2", "url": "https://ntfy.sh", "priority": 5, "priority_up": 3, "token": ""}),
        "gotify": text({"url": "https://gotify.example.org", "token": "AbCdEfGhIjKlMnO"}),
        "matrix": "!abc:example.org",
        "zulip": text({"bot_email": "bot@zulip.example.org", "api_key": "abc", "mtype": "stream", "to": "ops"}),
        "sms": phone,
        "whatsapp": phone,
        "call": text({"value": "+37120000000"}),
        "signal": phone,
        "trello": text({"token": "def", "list_id": "0123456789abcdef01234567", "board_name": "b", "list_name": "l"}),
        "github": text({"installation_id": 1, "repo": "example/ops", "labels": ["down"]}),
        "apprise": "json://example.org/hook",
        "shell": text({"cmd_down": "logger $NAME", "cmd_up": ""}),
        "group": ",".join(str(code("k" + kind)) for kind in ("email", "webhook")),
        "hipchat": "gone",
    }
    for place, (kind, value) in enumerate(values.items()):
        channel = t["Channel"].objects.create(name=f"my {kind}", code=code("k" + kind), project=home, created=after(minutes=place), kind=kind,
                                              value=value, email_verified=True, disabled=kind == "spike")
        channel.checks.set(assigned[: place % 3])
    t["Channel"].objects.create(name="unconfirmed", code=code("kk"), project=twin, created=after(), kind="email", value="a@example.org")


def many(path, count):
    """Adds as many pings as a large server has, a hundred for each check."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) "
    copied = [column.split(":")[0] for column in API["Check"].split() if not column.startswith(("name:", "slug:", "code:", "badge_key:"))]
    copied = ", ".join(column.replace("project>accounts.Project", "project_id").replace("desc", '"desc"', 1) if ">" in column or column == "desc" else column for column in copied)
    database = sqlite3.connect(path)
    database.execute(
        numbers.format(count // 100)
        + f"INSERT INTO api_check (id, name, slug, code, badge_key, {copied}) SELECT 1000 + i, 'Job ' || i, 'job-' || i, "
        f"lower(hex(randomblob(16))), lower(hex(randomblob(16))), {copied} FROM n, api_check WHERE api_check.id = 1"
    )
    database.execute(
        numbers.format(count)
        + "INSERT INTO api_ping (n, owner_id, created, scheme, method, remote_addr, ua, body_raw) SELECT 51 + (i - 1) / ?1, 1001 + (i - 1) % ?1, "
        "datetime('2024-06-01', i || ' seconds'), 'https', 'POST', '192.0.2.7', 'curl/8.0', ?2 FROM n",
        (count // 100, b"done in 5 s\n" * 25),
    )
    database.commit()


class Postgres:
    """A temporary PostgreSQL that listens only on a socket in a private directory."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="overdue-pg"))
        self.bin = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip()
        if not self.bin:
            self.bin = str(max(pathlib.Path("/usr/lib/postgresql").iterdir()) / "bin")
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres")

    def run(self, *words, **more):
        user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        return subprocess.run([f"{self.bin}/{words[0]}", *words[1:]], check=True, cwd=self.directory, **as_user, **more)

    def __enter__(self):
        data = self.directory / "data"
        self.run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", stdout=subprocess.DEVNULL)
        options = f"-c listen_addresses= -c unix_socket_directories={self.directory} -c fsync=off"
        self.run("pg_ctl", "-D", str(data), "-w", "-l", str(self.directory / "log"), "-o", options, "start", stdout=subprocess.DEVNULL)
        self.run("createdb", "-h", str(self.directory), "-U", "postgres", "hc")
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "-D", str(self.directory / "data"), "-w", "-m", "immediate", "stop", stdout=subprocess.DEVNULL)
        shutil.rmtree(self.directory)

    def dump(self, to):
        dumped = self.run("pg_dump", "-h", str(self.directory), "-U", "postgres", "--no-owner", "hc", stdout=subprocess.PIPE)
        # Random lines of newer releases.
        lines = [line for line in dumped.stdout.splitlines(True) if not line.startswith((b"\\restrict", b"\\unrestrict"))]
        to.write_bytes(b"".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default="tests/healthchecks", type=pathlib.Path)
    parser.add_argument("--pings", type=int, default=0)
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "hc.sqlite").unlink(missing_ok=True)
    if arguments.pings:
        return make(directory, None, arguments.pings)
    with Postgres() as postgres:
        make(directory, str(postgres.directory), 0)
        postgres.dump(directory / "hc.sql")


def tables_of(database):
    from django.core.management import call_command

    # Tables that others refer to come first.
    call_command("migrate", "auth", verbosity=0, database=database)
    call_command("migrate", run_syncdb=True, verbosity=0, database=database)


def make(directory, socket, pings):
    from django.core.management import call_command
    from django.db import transaction

    configure(directory, socket)
    tables_of("default")
    with transaction.atomic():
        t = tables()
        home, nameless, twin = people(t)
        channels(t, home, twin, checks(t, home, nameless, twin))
    if not socket:
        return many(directory / "hc.sqlite", pings)
    # The other formats are written from the data read back.
    tables_of("pg")
    exact(directory, t)
    wanted = ["auth.user", "accounts", "api.check", "api.channel", "api.flip", "api.ping"]
    call_command("dumpdata", *wanted, database="pg", indent=None, output=str(directory / "hc.json"), verbosity=0)
    sqlite3.connect(directory / "hc.sqlite").execute("VACUUM")


def exact(directory, t):
    """Copies all rows into PostgreSQL, times to the microsecond."""
    from django.contrib.auth.models import User

    for model in [User, *t.values()]:
        model.objects.using("pg").bulk_create(model.objects.using("default").order_by("pk"))
    through = t["Channel"].checks.through
    through.objects.using("pg").bulk_create(through.objects.using("default").order_by("pk"))


if __name__ == "__main__":
    main()
