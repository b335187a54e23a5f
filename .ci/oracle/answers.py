#!/usr/bin/env python3
"""Sends requests to a real Healthchecks, imports it into overdue, and repeats them: apart from listed differences, the answers must be equal.

    python3 -m venv VENV && VENV/bin/pip install -r HEALTHCHECKS/requirements.txt time-machine 'psycopg[binary]'
    VENV/bin/python .ci/oracle/answers.py --healthchecks HEALTHCHECKS --overdue BINARY [--only sqlite|dumpdata|pg_dump]

HEALTHCHECKS is a checkout. It runs in this process with its own database (see past.py), answers the requests, and is stopped. Its SQLite
file, a dumpdata and a pg_dump (if PostgreSQL is installed) are each imported into a new overdue at the same address, which gets the same
requests with the same keys. differences.py lists the permitted differences. Finally, old ping and badge URLs, a wrong SECRET_KEY and
pending alerts are tested.
"""

import argparse
import collections
import datetime
import http.client
import http.server
import json
import logging
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import wsgiref.simple_server

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import healthchecks
from differences import CUT, TABLE, compare, count
from past import ALARMS, BACKUP, KEYS, Past

TIMEOUT = 60
# For a missed ping without an alert by the old server, overdue alerts after the check had two minutes to report.
ALERT_TIMEOUT = 120 + TIMEOUT
Answer = collections.namedtuple("Answer", "status headers body")


class Query(collections.namedtuple("Query", "path key about slug", defaults=[None, None, ""])):
    """A GET request: its path, its key, and the UUID and slug of the check it is about."""

    @property
    def is_known(self):
        """True if the key is valid for a project."""
        return self.key in {keys[access] for keys in KEYS.values() for access in ("rw", "ro")} - {None}



class QuietHandler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Receiver(http.server.BaseHTTPRequestHandler):
    """A receiver of alerts."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(tuple(body.decode().split()))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class TestServer:
    """A directory, a port with its server, and a receiver of alerts."""

    def __init__(self, binary):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="overdue-answers-"))
        self.binary = binary
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.alarms = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.alarms.received = []
        self.alarm_url = f"http://127.0.0.1:{self.alarms.server_address[1]}/"
        threading.Thread(target=self.alarms.serve_forever, daemon=True).start()
        self.process = None

    def request(self, method, path, key=None, body=None, headers=None):
        all_headers = {**({"X-Api-Key": key} if key else {}), **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request(method, urllib.parse.quote(path, safe="/%?&=:+*"), body=body, headers={"User-Agent": "oracle", **all_headers})
        answer = connection.getresponse()
        result = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return result

    def run(self, *words, expected=0):
        done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True)
        if done.returncode != expected:
            raise SystemExit(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, data, *flags):
        options = ["--listen", f"127.0.0.1:{self.port}", "--base-url", self.url, "--api-rate", "0", "--ping-body-limit", "10000", "--log", "warn"]
        self.process = subprocess.Popen([self.binary, "serve", "--data", data, *options, *flags], stderr=open(self.home / "log", "a"))
        self.wait_until("the server answers", lambda: self.request("GET", "/healthz").status == 200)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(TIMEOUT)
            self.process = None

    def wait_until(self, event, is_true, seconds=TIMEOUT):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if is_true():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{event}: not within {seconds} s")


class Reference:
    """A Healthchecks that runs in this process."""

    def __init__(self, directory, test_server, socket_of_postgres):
        environment = {
            "DB": "sqlite", "DB_NAME": str(test_server.home / "hc.sqlite"), "SECRET_KEY": healthchecks.SECRET_KEY, "DEBUG": "False", "ALLOWED_HOSTS": "*",
            "SITE_ROOT": test_server.url, "SITE_NAME": "overdue", "MASTER_BADGE_LABEL": "overdue", "PING_ENDPOINT": test_server.url + "/ping/",
            "PING_BODY_LIMIT": "10000", "USE_PAYMENTS": "False", "DJANGO_SETTINGS_MODULE": "hc.settings",
        }
        os.environ.update(environment)
        sys.path.insert(0, str(directory))
        import django
        from django.conf import settings
        from django.core.wsgi import get_wsgi_application

        self.databases = ["default"]
        if socket_of_postgres:
            settings.DATABASES["pg"] = {"ENGINE": "django.db.backends.postgresql", "NAME": "hc", "HOST": socket_of_postgres, "USER": "postgres"}
            self.databases.append("pg")
        django.setup()
        logging.disable(logging.ERROR)
        for database in self.databases:
            healthchecks.tables_of(database)
        self.server = wsgiref.simple_server.make_server("127.0.0.1", test_server.port, get_wsgi_application(), handler_class=QuietHandler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def dump(self, test_server, postgres):
        from django.contrib.auth.models import User
        from django.core.management import call_command
        from hc.accounts.models import Member, Profile, Project
        from hc.api.models import Channel, Check, Flip, Ping

        applications = ["auth.user", "accounts", "api.check", "api.channel", "api.flip", "api.ping"]
        call_command("dumpdata", *applications, output=str(test_server.home / "hc.json"), verbosity=0)
        if postgres:
            models = [User, Profile, Project, Member, Check, Ping, Flip, Channel, Channel.checks.through]
            for model in models:
                model.objects.using("pg").bulk_create(model.objects.using("default").order_by("pk"))
            postgres.dump(test_server.home / "hc.sql")


def queries(test_server, past):
    """Yields all GET requests."""
    from hc.api.models import Channel, Check, Ping

    checks = list(Check.objects.select_related("project").order_by("pk"))
    keys = {(name, access): keys[access] for name, keys in KEYS.items() for access in ("rw", "ro") if keys[access]}
    of_project = {project.id: name for name, project in past.projects.items()}
    invalid_keys = ["", "short", "Z" * 32, KEYS["home"]["ping"], "hcw_" + "Z" * 28, "hcr_" + "W" * 28, "hcw_" + "R" * 28]
    unknown, start = healthchecks.code("unknown"), int(past.now.timestamp())
    tags = ["tag=prod", "tag=prod&tag=db", "tag=", "tag=pro", "tag=PROD", "tag=%C5%BE", "tag=a%2Fb", "tag=%09bed", "tag=nbsp", "tag=tag07&slug=x", "tag=*"]
    slugs = ["slug=double", "slug=", "slug=none", "slug=made-by-ping&tag=prod", "slug=double&slug=made-by-ping", "other=1"]
    windows = ["seconds=0", "seconds=", f"seconds={13 * 3600}", f"start={start - 75 * 3600}", f"end={start - 65 * 3600}", "start=x", "end=-1", "start=1.5",
               f"start={start - 75 * 3600}&end={start - 65 * 3600}", "seconds=31536001", "seconds=31536000", "start=10000000001", "start=", "end=0", "start=0"]
    for version in ("v1", "v2", "v3"):
        api = f"/api/{version}"
        fixed = ["/checks/", "/channels/", "/badges/", "/status/", "/metrics/", "/nothing/", f"/checks/{unknown}", f"/checks/{unknown}/pings/", f"/checks/{unknown}/flips/"]
        for path in fixed:
            for key in [None, *invalid_keys, *keys.values()]:
                yield Query(api + path, key)
        for parameters in tags + slugs:
            for key in keys.values():
                yield Query(f"{api}/checks/?{parameters}", key)
        for check in checks:
            project = of_project[check.project_id]
            about = (str(check.code), check.slug)
            paths = [f"{api}/checks/{name}" for name in (check.code, check.unique_key)]
            others = [key for (name, _), key in keys.items() if name == project or check.name in (BACKUP, "Short log")]
            for key in others:
                for path in paths:
                    yield Query(path, key, *about)
                    yield Query(path + "/flips/", key, *about)
                yield Query(paths[0] + "/pings/", key, *about)
                yield Query(paths[1] + "/pings/", key, *about)
            key = keys.get((project, "rw"))
            if not key:
                continue
            for parameters in windows if check.name in (BACKUP, "Recovered and told", "Long ago") else windows[:1]:
                for path in paths:
                    yield Query(f"{path}/flips/?{parameters}", key, *about)
            n_pings = Ping.objects.filter(owner=check).count()
            numbers = range(0, check.n_pings + 2) if version == "v3" else [check.n_pings]
            for number in numbers if n_pings else []:
                yield Query(f"{paths[0]}/pings/{number}/body", key, *about)
        yield Query(f"{api}/checks/{checks[0].code}/pings/x/body", KEYS["home"]["rw"])
        yield Query(f"{api}/checks/{checks[0].code}/pings/250/body", keys["home", "ro"])
    yield Query("/api/v4/checks/", KEYS["home"]["rw"])
    for check in checks:
        for end in [f"{states}/{check.badge_key}.{form}" for states in (2, 3) for form in ("svg", "json", "shields", "png")]:
            yield Query(f"/b/{end}", None, str(check.code), check.slug)
    yield Query(f"/b/2/{unknown}.svg")
    for name, project in past.projects.items():
        for url in sorted(badge_urls(past, name)):
            yield Query(url)
            yield Query(url.rsplit(".", 1)[0] + ".png")
            yield Query(url.replace(f"/{project.badge_key}/", "/badge-of-closed-not/"))


def badge_urls(past, name):
    """Yields the badge URLs of a project, as Healthchecks lists them."""
    from hc.lib.badges import get_badge_url

    project = past.projects[name]
    tags = {"*", "no check has it"}.union(*(check.tags_list() for check in project.check_set.all()))
    for tag in tags:
        for form in ("svg", "json", "shields"):
            for late in (False, True):
                yield urllib.parse.urlsplit(get_badge_url(project.badge_key, tag, fmt=form, with_late=late)).path


def import_database(test_server, source, *flags, is_running=False):
    """Imports a database. Returns the data directory and the report."""
    data = test_server.home / f"data-{source}"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    if is_running:
        test_server.serve(data)
    return data, json.loads(test_server.run("import", "healthchecks", test_server.home / source, "--live", "--data", data, "--json", *flags))


def compare_answers(test_server, source, recorded, past):
    """Imports a database and repeats all requests. Prints the number of equal values and the differences. The dumpdata is imported into a running server."""
    past.is_cut = source == "hc.json"
    data, _ = import_database(test_server, source, "--secret-key-file", test_server.home / "secret", is_running=past.is_cut)
    if not past.is_cut:
        test_server.serve(data)
    used = {reason: 0 for reason, _ in TABLE}
    differing, values = {}, 0
    for query, theirs in recorded.items():
        ours = test_server.request("GET", query.path, key=query.key)
        try:
            lines = compare(query, theirs, ours, past, used)
        except Exception as error:
            seen = [f"{answer.status} {answer.body[:150]!r}" for answer in (theirs, ours)]
            lines = [f"cannot be compared ({type(error).__name__}: {error}): {seen[0]} before, {seen[1]} now"]
        if lines:
            differing[query] = lines
        elif ours.headers.get("content-type") == "application/json":
            values += count(json.loads(ours.body))
        else:
            values += 1
    test_server.stop()
    print(f"{source}: {len(recorded)} requests, {values} equal values")
    for reason, times in used.items():
        print(f"  {times:6} {reason}")
        if not times and (past.is_cut or reason != CUT):
            differing[Query("the table of differences")] = [f"no answer has the difference: {reason}"]
    groups = collections.defaultdict(list)
    for query, lines in differing.items():
        groups["\n    ".join(lines[:12])].append(query)
    for lines, group in list(groups.items())[:60]:
        query = group[0]
        also = f", and {len(group) - 1} others" if group[1:] else ""
        print(f"\n{query.path} with the key {query.key} (check {query.about}){also}\n    {lines}")
    if differing:
        print(f"\n{len(differing)} answers differ")
    return differing


def check_use(test_server, past):
    """Checks that old ping URLs, keys and badges work, before and after a restart, and that exactly the pending alerts are sent, once each."""
    data, _ = import_database(test_server, "hc.sqlite", "--secret-key-file", test_server.home / "secret")
    test_server.alarms.received.clear()
    waiting = sorted(past.waiting_alarms())
    test_server.serve(data)
    try:
        test_server.wait_until(f"{len(waiting)} alerts are sent", lambda: len(test_server.alarms.received) >= len(waiting), ALERT_TIMEOUT)
    except SystemExit:
        raise SystemExit(f"sent: {sorted(test_server.alarms.received)}\nHealthchecks would send: {waiting}\n" + test_server.run("deliveries", "--data", data))
    home = KEYS["home"]
    old = [f"/ping/{past.uuids[BACKUP]}", f"/ping/{past.uuids['Up']}/0", f"/ping/{home['ping']}/made-by-ping", f"/ping/{home['ping']}/made-by-ping/log"]
    for path in old * 2:
        answer = test_server.request("POST", path, body=b"after the move")
        assert (answer.status, answer.body) == (200, b"OK"), (path, answer)
    for key in [keys[access] for keys in KEYS.values() for access in ("rw", "ro") if keys[access]] * 2:
        assert test_server.request("GET", "/api/v3/checks/", key=key).status == 200, key
    checks = json.loads(test_server.request("GET", "/api/v3/checks/", key=home["rw"]).body)["checks"]
    for check in checks:
        alerting = json.loads(test_server.request("GET", f"/api/overdue/v1/checks/{check['uuid']}/alerting", key=home["rw"]).body)
        assert alerting["telling"] != "due", (check["name"], alerting)
    pings = {check["name"]: check["n_pings"] for check in checks}
    assert (pings[BACKUP], pings["made-by-ping"]) == (253, 6), pings
    test_server.stop()
    test_server.serve(data)
    for name, keys in KEYS.items():
        for key in filter(None, (keys["rw"], keys["ro"])):
            assert test_server.request("GET", "/api/v3/checks/", key=key).status == 200, key
        for url in badge_urls(past, name):
            assert test_server.request("GET", url).status == 200, url
    for badges in json.loads(test_server.request("GET", "/api/v3/badges/", key=home["rw"]).body)["badges"].values():
        for url in badges.values():
            assert test_server.request("GET", url.removeprefix(test_server.url)).status == 200, url
    # The alert about a later failure is sent after all pending ones.
    test_server.request("POST", f"/ping/{past.uuids['Up']}/fail")
    test_server.wait_until("the alert about a failure is sent", lambda: (past.uuids["Up"], "down") in test_server.alarms.received)
    test_server.stop()
    sent = sorted(test_server.alarms.received)
    sent.remove((past.uuids["Up"], "down"))
    assert sent == waiting, f"sent: {sent}\nHealthchecks would have sent: {waiting}"
    print(f"old URLs, keys and badges work; sent: the {len(waiting)} pending alerts and no others")


def other_secrets(test_server):
    """Checks that hashed keys are not imported without SECRET_KEY and rejected with a wrong one, and that the report explains it."""
    hashed = [key for keys in KEYS.values() for key in (keys["rw"], keys["ro"]) if key and key.startswith("hc")]
    (test_server.home / "wrong").write_text("wrong-secret\n")
    for flags, carried, note in [([], 2, "hashed: they need the SECRET_KEY"), (["--secret-key-file", test_server.home / "wrong"], 6, "if the old server used this SECRET_KEY")]:
        data, report = import_database(test_server, "hc.sqlite", *flags)
        text = json.dumps(report)
        assert note in text, text
        assert report["counts"]["api_keys"]["carried"] == carried, text
        test_server.serve(data)
        for key in hashed:
            answer = test_server.request("GET", "/api/v3/checks/", key=key)
            assert (answer.status, json.loads(answer.body)) == (401, {"error": "wrong api key"}), answer
        assert test_server.request("GET", "/api/v3/checks/", key=KEYS["home"]["rw"]).status == 200
        test_server.stop()
    print("without SECRET_KEY and with a wrong one, hashed keys are refused, and the report explains it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthchecks", required=True, type=pathlib.Path)
    parser.add_argument("--overdue", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=["sqlite", "dumpdata", "pg_dump"])
    arguments = parser.parse_args()
    test_server = TestServer(arguments.overdue.resolve())
    has_postgres = arguments.only in (None, "pg_dump") and (shutil.which("pg_config") or pathlib.Path("/usr/lib/postgresql").is_dir())
    if not has_postgres:
        print("skipped: PostgreSQL is not installed or not selected")
    with healthchecks.Postgres() if has_postgres else open(os.devnull) as postgres:
        return compare_all(arguments, test_server, postgres if has_postgres else None)


def compare_all(arguments, test_server, postgres):
    reference = Reference(arguments.healthchecks.resolve(), test_server, str(postgres.directory) if postgres else None)
    (test_server.home / "secret").write_text(healthchecks.SECRET_KEY + "\n")
    past = Past(test_server.request, datetime.datetime.now(datetime.timezone.utc), test_server.alarm_url)
    past.make()
    recorded = {query: test_server.request("GET", query.path, key=query.key) for query in dict.fromkeys(queries(test_server, past))}
    failed = [query for query, answer in recorded.items() if answer.status >= 500]
    assert not failed, failed
    reference.stop()
    reference.dump(test_server, postgres)
    sources = {"sqlite": "hc.sqlite", "dumpdata": "hc.json", **({"pg_dump": "hc.sql"} if postgres else {})}
    differing = {}
    for name, source in sources.items():
        if arguments.only in (None, name):
            differing.update(compare_answers(test_server, source, recorded, past))
    try:
        check_use(test_server, past)
        other_secrets(test_server)
    finally:
        test_server.stop()
    if differing:
        print(f"the files are in {test_server.home}")
        return 1
    shutil.rmtree(test_server.home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
