#!/usr/bin/env python3
"""Asks a real Healthchecks everything, moves it to overdue, and asks again: the answers must be the same but for listed differences.

    python3 -m venv VENV && VENV/bin/pip install -r HEALTHCHECKS/requirements.txt time-machine 'psycopg[binary]'
    VENV/bin/python .ci/oracle/answers.py --healthchecks HEALTHCHECKS --overdue BINARY [--only sqlite|dumpdata|pg_dump]

HEALTHCHECKS is a checkout of it. It runs in this process with a database of its own (past.py says what is in it), answers, and is stopped;
its SQLite file, a dumpdata and a pg_dump of it (if PostgreSQL is installed) are imported, each into a fresh overdue at the same address,
which is asked the same with the same keys. differences.py is the table of what may differ. Then old ping and badge URLs, a wrong SECRET_KEY,
and what is told are tried.
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

PATIENCE = 60
# A silence that the old server had not told is told when the check had two minutes to report here.
CHANCE = 120 + PATIENCE
Answer = collections.namedtuple("Answer", "status headers body")


class Question(collections.namedtuple("Question", "path key about slug", defaults=[None, None, ""])):
    """What is asked for: a path, the key it is asked with, and the check it is about, with its slug."""

    @property
    def is_known(self):
        """Whether its key opens something."""
        return self.key in {keys[access] for keys in KEYS.values() for access in ("rw", "ro")} - {None}



class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Receiver(http.server.BaseHTTPRequestHandler):
    """Where alerts arrive."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(tuple(body.decode().split()))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Place:
    """A directory, a port, what listens there, and what hears of alerts."""

    def __init__(self, binary):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="overdue-answers-"))
        self.binary = binary
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.alarms = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.alarms.got = []
        self.alarm_url = f"http://127.0.0.1:{self.alarms.server_address[1]}/"
        threading.Thread(target=self.alarms.serve_forever, daemon=True).start()
        self.process = None

    def ask(self, method, path, key=None, body=None, headers=None):
        given = {**({"X-Api-Key": key} if key else {}), **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, urllib.parse.quote(path, safe="/%?&=:+*"), body=body, headers={"User-Agent": "oracle", **given})
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
        wanted = ["--listen", f"127.0.0.1:{self.port}", "--base-url", self.url, "--api-rate", "0", "--ping-body-limit", "10000", "--log", "warn"]
        self.process = subprocess.Popen([self.binary, "serve", "--data", data, *wanted, *flags], stderr=open(self.home / "log", "a"))
        self.until("the server answers", lambda: self.ask("GET", "/healthz").status == 200)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
            self.process = None

    def until(self, what, look, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if look():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{what}: not so after {seconds} s")


class Reference:
    """A Healthchecks in this process."""

    def __init__(self, directory, place, socket_of_postgres):
        given = {
            "DB": "sqlite", "DB_NAME": str(place.home / "hc.sqlite"), "SECRET_KEY": healthchecks.SECRET_KEY, "DEBUG": "False", "ALLOWED_HOSTS": "*",
            "SITE_ROOT": place.url, "SITE_NAME": "overdue", "MASTER_BADGE_LABEL": "overdue", "PING_ENDPOINT": place.url + "/ping/",
            "PING_BODY_LIMIT": "10000", "USE_PAYMENTS": "False", "DJANGO_SETTINGS_MODULE": "hc.settings",
        }
        os.environ.update(given)
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
        self.server = wsgiref.simple_server.make_server("127.0.0.1", place.port, get_wsgi_application(), handler_class=Quiet)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def dump(self, place, postgres):
        from django.contrib.auth.models import User
        from django.core.management import call_command
        from hc.accounts.models import Member, Profile, Project
        from hc.api.models import Channel, Check, Flip, Ping

        wanted = ["auth.user", "accounts", "api.check", "api.channel", "api.flip", "api.ping"]
        call_command("dumpdata", *wanted, output=str(place.home / "hc.json"), verbosity=0)
        if postgres:
            models = [User, Profile, Project, Member, Check, Ping, Flip, Channel, Channel.checks.through]
            for model in models:
                model.objects.using("pg").bulk_create(model.objects.using("default").order_by("pk"))
            postgres.dump(place.home / "hc.sql")


def questions(place, past):
    """All that can be asked for with GET."""
    from hc.api.models import Channel, Check, Ping

    checks = list(Check.objects.select_related("project").order_by("pk"))
    keys = {(name, access): keys[access] for name, keys in KEYS.items() for access in ("rw", "ro") if keys[access]}
    of_project = {project.id: name for name, project in past.projects.items()}
    wrong = ["", "short", "Z" * 32, KEYS["home"]["ping"], "hcw_" + "Z" * 28, "hcr_" + "W" * 28, "hcw_" + "R" * 28]
    unknown, start = healthchecks.code("unknown"), int(past.now.timestamp())
    tags = ["tag=prod", "tag=prod&tag=db", "tag=", "tag=pro", "tag=PROD", "tag=%C5%BE", "tag=a%2Fb", "tag=%09bed", "tag=nbsp", "tag=tag07&slug=x", "tag=*"]
    slugs = ["slug=double", "slug=", "slug=none", "slug=made-by-ping&tag=prod", "slug=double&slug=made-by-ping", "other=1"]
    windows = ["seconds=0", "seconds=", f"seconds={13 * 3600}", f"start={start - 75 * 3600}", f"end={start - 65 * 3600}", "start=x", "end=-1", "start=1.5",
               f"start={start - 75 * 3600}&end={start - 65 * 3600}", "seconds=31536001", "seconds=31536000", "start=10000000001", "start=", "end=0", "start=0"]
    for version in ("v1", "v2", "v3"):
        api = f"/api/{version}"
        fixed = ["/checks/", "/channels/", "/badges/", "/status/", "/metrics/", "/nothing/", f"/checks/{unknown}", f"/checks/{unknown}/pings/", f"/checks/{unknown}/flips/"]
        for path in fixed:
            for key in [None, *wrong, *keys.values()]:
                yield Question(api + path, key)
        for query in tags + slugs:
            for key in keys.values():
                yield Question(f"{api}/checks/?{query}", key)
        for check in checks:
            own = of_project[check.project_id]
            about = (str(check.code), check.slug)
            shown = [f"{api}/checks/{name}" for name in (check.code, check.unique_key)]
            others = [key for (name, _), key in keys.items() if name == own or check.name in (BACKUP, "Short log")]
            for key in others:
                for path in shown:
                    yield Question(path, key, *about)
                    yield Question(path + "/flips/", key, *about)
                yield Question(shown[0] + "/pings/", key, *about)
                yield Question(shown[1] + "/pings/", key, *about)
            key = keys.get((own, "rw"))
            if not key:
                continue
            for query in windows if check.name in (BACKUP, "Recovered and told", "Long ago") else windows[:1]:
                for path in shown:
                    yield Question(f"{path}/flips/?{query}", key, *about)
            n_pings = Ping.objects.filter(owner=check).count()
            numbers = range(0, check.n_pings + 2) if version == "v3" else [check.n_pings]
            for number in numbers if n_pings else []:
                yield Question(f"{shown[0]}/pings/{number}/body", key, *about)
        yield Question(f"{api}/checks/{checks[0].code}/pings/x/body", KEYS["home"]["rw"])
        yield Question(f"{api}/checks/{checks[0].code}/pings/250/body", keys["home", "ro"])
    yield Question("/api/v4/checks/", KEYS["home"]["rw"])
    for check in checks:
        for end in [f"{states}/{check.badge_key}.{form}" for states in (2, 3) for form in ("svg", "json", "shields", "png")]:
            yield Question(f"/b/{end}", None, str(check.code), check.slug)
    yield Question(f"/b/2/{unknown}.svg")
    for name, project in past.projects.items():
        for url in sorted(badge_urls(past, name)):
            yield Question(url)
            yield Question(url.rsplit(".", 1)[0] + ".png")
            yield Question(url.replace(f"/{project.badge_key}/", "/badge-of-closed-not/"))


def badge_urls(past, name):
    """The badge URLs of a project, as Healthchecks lists them."""
    from hc.lib.badges import get_badge_url

    project = past.projects[name]
    tags = {"*", "no check has it"}.union(*(check.tags_list() for check in project.check_set.all()))
    for tag in tags:
        for form in ("svg", "json", "shields"):
            for late in (False, True):
                yield urllib.parse.urlsplit(get_badge_url(project.badge_key, tag, fmt=form, with_late=late)).path


def imported(place, source, *flags, is_running=False):
    """A data directory with what was imported, and the report."""
    data = place.home / f"data-{source}"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    if is_running:
        place.serve(data)
    return data, json.loads(place.run("import", "healthchecks", place.home / source, "--live", "--data", data, "--json", *flags))


def compared(place, source, recorded, past):
    """Asks overdue, and tells what differs; how many values were the same. What dumpdata wrote is brought to a server that runs."""
    past.is_cut = source == "hc.json"
    data, _ = imported(place, source, "--secret-key-file", place.home / "secret", is_running=past.is_cut)
    if not past.is_cut:
        place.serve(data)
    used = {reason: 0 for reason, _ in TABLE}
    wrong, values = {}, 0
    for question, theirs in recorded.items():
        ours = place.ask("GET", question.path, key=question.key)
        try:
            lines = compare(question, theirs, ours, past, used)
        except Exception as error:
            seen = [f"{answer.status} {answer.body[:150]!r}" for answer in (theirs, ours)]
            lines = [f"cannot be compared ({type(error).__name__}: {error}): {seen[0]} was, {seen[1]} is"]
        if lines:
            wrong[question] = lines
        elif ours.headers.get("content-type") == "application/json":
            values += count(json.loads(ours.body))
        else:
            values += 1
    place.stop()
    print(f"{source}: {len(recorded)} questions, {values} values the same")
    for reason, times in used.items():
        print(f"  {times:6} {reason}")
        if not times and (past.is_cut or reason != CUT):
            wrong[Question("the table of differences")] = [f"nothing differs by: {reason}"]
    alike = collections.defaultdict(list)
    for question, lines in wrong.items():
        alike["\n    ".join(lines[:12])].append(question)
    for lines, asked in list(alike.items())[:60]:
        question = asked[0]
        also = f", and {len(asked) - 1} others alike" if asked[1:] else ""
        print(f"\n{question.path} with the key {question.key} (check {question.about}){also}\n    {lines}")
    if wrong:
        print(f"\n{len(wrong)} answers differ")
    return wrong


def used(place, past):
    """Old URLs ping, old keys and badges work, before and after a restart; what waits to be told is told once, and nothing else is."""
    data, _ = imported(place, "hc.sqlite", "--secret-key-file", place.home / "secret")
    place.alarms.got.clear()
    waiting = sorted(past.waiting_alarms())
    place.serve(data)
    try:
        place.until(f"{len(waiting)} alerts are told", lambda: len(place.alarms.got) >= len(waiting), CHANCE)
    except SystemExit:
        raise SystemExit(f"told: {sorted(place.alarms.got)}\nHealthchecks would tell: {waiting}\n" + place.run("deliveries", "--data", data))
    home = KEYS["home"]
    old = [f"/ping/{past.uuids[BACKUP]}", f"/ping/{past.uuids['Up']}/0", f"/ping/{home['ping']}/made-by-ping", f"/ping/{home['ping']}/made-by-ping/log"]
    for path in old * 2:
        answer = place.ask("POST", path, body=b"after the move")
        assert (answer.status, answer.body) == (200, b"OK"), (path, answer)
    for key in [keys[access] for keys in KEYS.values() for access in ("rw", "ro") if keys[access]] * 2:
        assert place.ask("GET", "/api/v3/checks/", key=key).status == 200, key
    checks = json.loads(place.ask("GET", "/api/v3/checks/", key=home["rw"]).body)["checks"]
    for check in checks:
        alerting = json.loads(place.ask("GET", f"/api/overdue/v1/checks/{check['uuid']}/alerting", key=home["rw"]).body)
        assert alerting["telling"] != "due", (check["name"], alerting)
    pings = {check["name"]: check["n_pings"] for check in checks}
    assert (pings[BACKUP], pings["made-by-ping"]) == (253, 6), pings
    place.stop()
    place.serve(data)
    for name, keys in KEYS.items():
        for key in filter(None, (keys["rw"], keys["ro"])):
            assert place.ask("GET", "/api/v3/checks/", key=key).status == 200, key
        for url in badge_urls(past, name):
            assert place.ask("GET", url).status == 200, url
    for badges in json.loads(place.ask("GET", "/api/v3/badges/", key=home["rw"]).body)["badges"].values():
        for url in badges.values():
            assert place.ask("GET", url.removeprefix(place.url)).status == 200, url
    # What is told by a first failure after the move comes behind all that waited.
    place.ask("POST", f"/ping/{past.uuids['Up']}/fail")
    place.until("a failure is told", lambda: (past.uuids["Up"], "down") in place.alarms.got)
    place.stop()
    told = sorted(place.alarms.got)
    told.remove((past.uuids["Up"], "down"))
    assert told == waiting, f"told: {told}\nHealthchecks would have told: {waiting}"
    print(f"old URLs, keys and badges work; told: {len(waiting)} alerts that waited, and no other")


def other_secrets(place):
    """Without SECRET_KEY hashed keys stay behind; with a wrong one they are refused. The report says it."""
    hashed = [key for keys in KEYS.values() for key in (keys["rw"], keys["ro"]) if key and key.startswith("hc")]
    (place.home / "wrong").write_text("wrong-secret\n")
    for flags, carried, note in [([], 2, "hashed: they need the SECRET_KEY"), (["--secret-key-file", place.home / "wrong"], 6, "if the old server used this SECRET_KEY")]:
        data, report = imported(place, "hc.sqlite", *flags)
        text = json.dumps(report)
        assert note in text, text
        assert report["counts"]["api_keys"]["carried"] == carried, text
        place.serve(data)
        for key in hashed:
            answer = place.ask("GET", "/api/v3/checks/", key=key)
            assert (answer.status, json.loads(answer.body)) == (401, {"error": "wrong api key"}), answer
        assert place.ask("GET", "/api/v3/checks/", key=KEYS["home"]["rw"]).status == 200
        place.stop()
    print("without SECRET_KEY and with a wrong one, hashed keys are refused, and the report says why")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthchecks", required=True, type=pathlib.Path)
    parser.add_argument("--overdue", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=["sqlite", "dumpdata", "pg_dump"])
    arguments = parser.parse_args()
    place = Place(arguments.overdue.resolve())
    has_postgres = arguments.only in (None, "pg_dump") and (shutil.which("pg_config") or pathlib.Path("/usr/lib/postgresql").is_dir())
    if not has_postgres:
        print("PostgreSQL is not tried")
    with healthchecks.Postgres() if has_postgres else open(os.devnull) as postgres:
        return compare_all(arguments, place, postgres if has_postgres else None)


def compare_all(arguments, place, postgres):
    reference = Reference(arguments.healthchecks.resolve(), place, str(postgres.directory) if postgres else None)
    (place.home / "secret").write_text(healthchecks.SECRET_KEY + "\n")
    past = Past(place.ask, datetime.datetime.now(datetime.timezone.utc), place.alarm_url)
    past.make()
    recorded = {question: place.ask("GET", question.path, key=question.key) for question in dict.fromkeys(questions(place, past))}
    failed = [question for question, answer in recorded.items() if answer.status >= 500]
    assert not failed, failed
    reference.stop()
    reference.dump(place, postgres)
    sources = {"sqlite": "hc.sqlite", "dumpdata": "hc.json", **({"pg_dump": "hc.sql"} if postgres else {})}
    wrong = {}
    for name, source in sources.items():
        if arguments.only in (None, name):
            wrong.update(compared(place, source, recorded, past))
    try:
        used(place, past)
        other_secrets(place)
    finally:
        place.stop()
    if wrong:
        print(f"what was left is in {place.home}")
        return 1
    shutil.rmtree(place.home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
