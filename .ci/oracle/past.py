"""The data for answers.py: the history of a Healthchecks, created through its API and ping URLs and, where these are not sufficient, its models.

The clock is moved while the data are created. They do not change for two hours: nothing falls due, and no filter of a request has a limit
within that time. So the duration of the requests does not matter."""
import collections
import datetime
import functools
import json
import uuid
import zoneinfo

import time_machine

import healthchecks

HOUR = 3600
DAY = 24 * HOUR
BACKUP = "Backup <b>&\"'"
ALARMS = uuid.UUID("6a1f0d52-3b9e-4c57-9a3e-0f7f2b7d1c11")

# The project that everything is in, one with hashed and plain keys the other way round, one without a name, and one without keys.
KEYS = {
    "home": {"rw": "A" * 16 + "plain-key_123456", "ro": "hcr_" + "R" * 28, "ping": "k" * 22},
    "office": {"rw": "hcw_" + "W" * 28, "ro": "B" * 16 + "plain_key-654321", "ping": "Office-ping_key1"},
    "nameless": {"rw": "hcw_" + "N" * 28, "ro": "hcr_" + "M" * 28, "ping": None},
    "closed": {"rw": None, "ro": None, "ping": None},
}


def stored(key):
    """Returns a key as the database stores it."""
    return "" if key is None else healthchecks.hashed(key) if key.startswith("hc") else key


class Past:
    def __init__(self, ask, now, alarm_url):
        self.ask, self.now, self.alarm_url = ask, now, alarm_url
        self.uuids = {}
        self.moments = 0

    def at(self, hours):
        """Returns a time this number of hours ago, later than earlier results for the same number. Each result has a different fraction of a second."""
        self.moments += 1
        return self.now - datetime.timedelta(hours=hours) + datetime.timedelta(seconds=self.moments, microseconds=self.moments * 7 + 1)

    def make(self):
        self.people()
        with time_machine.travel(self.at(24 * 45), tick=False):
            self.channels()
        self.settings()
        self.backup()
        self.mails()
        self.rows()
        self.states()
        self.office()
        with time_machine.travel(self.now, tick=False):
            self.going_down()
        self.look()

    def people(self):
        from django.contrib.auth.models import User
        from hc.accounts.models import Profile, Project

        self.projects = {}
        limits = {"ann": 100, "bob": 20}
        users = {name: User.objects.create(username=name, email=f"{name}@example.org") for name in limits}
        for name, user in users.items():
            Profile.objects.create(user=user, ping_log_limit=limits[name], check_limit=500)
        for name, keys in KEYS.items():
            self.projects[name] = Project.objects.create(
                code=healthchecks.code("project " + name), name="" if name == "nameless" else name.title(), badge_key="badge-of-" + name,
                owner=users["bob" if name == "office" else "ann"], api_key=stored(keys["rw"]), api_key_readonly=stored(keys["ro"]), ping_key=keys["ping"],
            )

    def channels(self):
        from hc.api.models import Channel

        home = self.projects["home"]
        healthchecks.channels({"Channel": Channel}, home, self.projects["office"], [])
        settings = {"body": "$CODE $STATUS", "headers": {}, "method": "POST", "url": self.alarm_url}
        value = {f"{key}_{status}": value for key, value in settings.items() for status in ("down", "up")}
        Channel.objects.create(code=ALARMS, project=home, name="Alarms", kind="webhook", value=json.dumps(value))

    def check(self, name, hours=24 * 40, project="home", version=3, **fields):
        """Creates a check by HTTP and stores its UUID by name."""
        with time_machine.travel(self.at(hours), tick=False):
            body = json.dumps({"name": name, **fields}).encode()
            answer = self.ask("POST", f"/api/v{version}/checks/", key=KEYS[project]["rw"], body=body)
        assert answer.status == 201, (name, answer)
        self.uuids[name] = json.loads(answer.body)["uuid"]
        return self.uuids[name]

    def ping(self, name, hours, end="", method="GET", body=None, expected=200, path=None, **headers):
        with time_machine.travel(self.at(hours), tick=False):
            answer = self.ask(method, (path or f"/ping/{self.uuids[name]}") + end, body=body, headers=headers)
        assert answer.status == expected, (name, end, answer)

    def change(self, name, hours, what, **fields):
        """Pauses, resumes or updates a check."""
        with time_machine.travel(self.at(hours), tick=False):
            answer = self.ask("POST", f"/api/v3/checks/{self.uuids[name]}{what}", key=KEYS["home"]["rw"], body=json.dumps(fields).encode())
        assert answer.status == 200, (name, what, answer)

    def mark_notified(self, name, hours):
        """Does what the alert process of Healthchecks does just after a check went down."""
        from django.utils.timezone import now
        from hc.api.models import Flip

        with time_machine.travel(self.at(hours), tick=False):
            self.going_down()
            Flip.objects.filter(owner__code=self.uuids[name], processed=None).update(processed=now())

    def going_down(self):
        from hc.api.management.commands.sendalerts import Command

        while Command().handle_going_down():
            pass

    def settings(self):
        """Creates checks with various settings, some of them never pinged."""
        soon, gone = self.now + datetime.timedelta(hours=6), self.now - datetime.timedelta(hours=4)
        riga = [moment.astimezone(zoneinfo.ZoneInfo("Europe/Riga")) for moment in (soon, gone)]
        daily = [f"{moment.minute} {moment.hour} * * *" for moment in riga]
        yearly = f"*-{soon:%m-%d} {soon:%H:%M}\n*-02~1 12:00"
        for name, fields in {
            "Cron ahead": {"schedule": daily[0], "tz": "Europe/Riga", "grace": HOUR, "tags": "cron"},
            "Cron in grace": {"schedule": daily[1], "tz": "Europe/Riga", "grace": DAY, "tags": "cron late"},
            "On calendar": {"schedule": yearly, "tz": "America/New_York", "grace": 300 * DAY, "tags": "cron"},
            "Ended": {"schedule": "2020-01-01 00:00", "grace": HOUR},
            "Sub-hourly": {"schedule": "*/5 * * JAN-DEC *", "grace": 365 * DAY},
        }.items():
            self.check(name, **fields)
            self.ping(name, 5)
        self.check("Never pinged", timeout=60, grace=60, tags="")
        self.check("Was cron", schedule="0 0 * * *", tz="Asia/Tokyo")
        self.change("Was cron", 24 * 39, "", timeout=365 * DAY, grace=60)
        self.check("Old zone", schedule="0 0 L * *", tz="Europe/Kiev")
        self.check("Ünïcode Näme — t_e-s t", version=1, subject="ok, fine", subject_fail="", tags="a/b c#d env:prod c++ 50% ž * <&>")
        self.check("Second version", version=2, subject="x", subject_fail="error", filter_subject=False, channels="my email,my slack")
        self.check("All channels", channels="*", tags="prod  prod tab\tbed nbsp\u00a0 .. svg.svg")
        words = {"start_kw": "begin", "success_kw": "ok, fine", "failure_kw": " error,,"}
        filters = {"filter_http_body": True, "filter_default_fail": True, "filter_body": True, "filter_subject": True}
        self.check("Filters", timeout=2 * DAY, **words, **filters)
        for hours, body in [(30, b"begin"), (29, b"an ok"), (28, b"nothing"), (27, b"fine, but error"), (26, b"fine")]:
            self.ping("Filters", hours, method="POST", body=body)
        self.check("POST alone", methods="POST", timeout=2 * DAY)
        self.ping("POST alone", 20)
        self.ping("POST alone", 19, method="POST", body=b"")
        self.ping("POST alone", 18, end="/fail")

    def rows(self):
        """Creates checks that no API can create, or that an older release created."""
        from hc.api.models import Check

        for name, fields in {
            "ž" * 100: {"slug": "s" * 100, "tags": "t" * 500, "desc": "d" * 16384},
            "Many tags": {"tags": " ".join(f"tag{number:02}" for number in range(70)), "desc": "long\n" * 5000},
            "Twin": {"slug": "double"},
            "Twin two": {"slug": "double"},
            "Simple with a schedule": {"schedule": "15 3 * * *", "tz": "Europe/Riga"},
            "": {},
        }.items():
            given = {"name": name, "project": self.projects["home"], "created": self.at(24 * 40), "code": healthchecks.code("row " + name), **fields}
            self.uuids[name] = str(Check.objects.create(**given).code)
        unnamed = Check(project=self.projects["nameless"], created=self.at(50), code=healthchecks.code("nameless check"), slug="slug-alone", tags="prod")
        closed = Check(project=self.projects["closed"], created=self.at(50), code=healthchecks.code("closed check"), tags="prod")
        for check in (unnamed, closed):
            check.save()
            self.uuids["in " + check.project.badge_key] = str(check.code)
        self.ping("", 3)
        self.ping("in badge-of-nameless", 3, end="/fail", method="POST", body=b"broken")

    def states(self):
        """Creates checks in each state. Only the alarm channel is notified of them, and some flips are pending."""
        make = functools.partial(self.check, channels="Alarms")
        ages = {"timeout": HOUR, "grace": HOUR, "tags": "state"}
        make("Up", timeout=DAY, tags="state prod")
        self.ping("Up", 3)
        make("Late", timeout=HOUR, grace=2 * DAY, tags="state late")
        self.ping("Late", 3)
        make("Down and told", **ages)
        self.ping("Down and told", 120)
        self.mark_notified("Down and told", 100)
        make("Failed and told")
        self.ping("Failed and told", 90, end="/fail")
        self.mark_notified("Failed and told", 89)
        make("Down, not told", **ages)
        self.ping("Down, not told", 30)
        make("Failed, not told")
        self.ping("Failed, not told", 40)
        self.ping("Failed, not told", 5, end="/3")
        make("Failed at first, not told")
        self.ping("Failed at first, not told", 5, end="/fail")
        make("Up at first")
        self.ping("Up at first", 6)
        make("Recovered and told", timeout=7 * DAY)
        for hours, end in [(80, ""), (70, "/fail"), (60, "")]:
            self.ping("Recovered and told", hours, end=end)
        self.mark_notified("Recovered and told", 59)
        make("Recovered, not told", timeout=7 * DAY)
        for hours, end in [(80, ""), (70, "/fail")]:
            self.ping("Recovered, not told", hours, end=end)
        self.mark_notified("Recovered, not told", 69)
        self.ping("Recovered, not told", 4)
        make("Paused")
        self.ping("Paused", 50)
        self.change("Paused", 48, "/pause")
        make("Paused for good", manual_resume=True)
        self.change("Paused for good", 30, "/pause")
        for end in ("", "/fail", "/log", "/start"):
            self.ping("Paused for good", 20, end=end)
        make("Resumed")
        self.ping("Resumed", 60, end="/fail")
        self.mark_notified("Resumed", 59)
        self.change("Resumed", 58, "/pause")
        self.change("Resumed", 57, "/resume")
        rid = healthchecks.code("run")
        make("New and running", grace=7 * DAY)
        self.ping("New and running", 4, end="/start")
        make("Up and running", timeout=7 * DAY, grace=7 * DAY)
        self.ping("Up and running", 9)
        self.ping("Up and running", 8, end=f"/start?rid={rid}")
        make("Other run goes on", timeout=7 * DAY, grace=7 * DAY)
        self.ping("Other run goes on", 8, end=f"/start?rid={rid}")
        self.ping("Other run goes on", 7, end=f"?rid={healthchecks.code('other run')}")
        make("Down and running", grace=7 * DAY)
        self.ping("Down and running", 12, end="/fail")
        self.mark_notified("Down and running", 11)
        self.ping("Down and running", 10, end="/start")
        make("Paused and running", grace=7 * DAY)
        self.change("Paused and running", 12, "/pause")
        self.ping("Paused and running", 10, end="/start")
        make("Ran too long", grace=HOUR, timeout=7 * DAY)
        self.ping("Ran too long", 50)
        self.ping("Ran too long", 40, end="/start")
        self.mark_notified("Ran too long", 38)
        make("Measured", timeout=7 * DAY)
        self.ping("Measured", 10, end="/start")
        self.ping("Measured", 8.5, end="/log", method="POST", body=b"half")
        self.ping("Measured", 8, end="/0")
        self.check("Slow", timeout=30 * DAY)
        self.ping("Slow", 24 * 8, end="/start")
        self.ping("Slow", 24 * 4)
        slug = "/ping/" + KEYS["home"]["ping"]
        self.ping("by slug", 6, path=slug, end="/made-by-ping?create=1", expected=201)
        self.ping("by slug", 5, path=slug, end="/made-by-ping/log")
        self.ping("ambiguous", 5, path=slug, end="/double", expected=409)

    def backup(self):
        """Creates 250 pings of all kinds."""
        self.check(BACKUP, timeout=2 * DAY, tags="prod db", desc="Nightly,\twith \"quotes\"\nand ž 🎉", channels="my webhook,my group")
        bodies = [
            b"", b"ok", bytes(range(256)), b"x" * 100, b"y" * 101, b"z" * 10_000, b"w" * 10_001, "ž".encode() * 5_001, b"\0", b" \r\n", b'{"a": [1]}', b"v" * 100_000,
        ]
        agents = ["curl/8.0", "", "a" * 250, "caf\u00e9", "Mozilla/5.0 (X11; \"quoted\")"]
        peers = ["192.0.2.7", "2001:db8:0:0::1", "192.0.2.33:4711", "::ffff:192.0.2.33", "198.51.100.1, 192.0.2.1"]
        sorts = [
            ("/start?rid={rid}", "POST"), ("?rid={rid}", "POST"), ("/start", "GET"), ("/7", "POST"), ("/log", "PUT"), ("", "PATCH"), ("/start?rid={other}", "GET"),
            ("/fail?rid={other}", "DELETE"), ("", "HEAD"), ("/0", "POST"), ("/", "GET"), ("/255", "PROPFIND"), ("", "OPTIONS"),
        ]
        for number in range(250):
            end, method = sorts[number % len(sorts)]
            headers = {"User-Agent": agents[number % len(agents)], "X-Forwarded-For": peers[number % len(peers)]}
            if number % 3 == 0:
                headers["X-Forwarded-Proto"] = "https"
            run = number // len(sorts)
            end = end.format(rid=healthchecks.code(f"run {run}"), other=healthchecks.code(f"other {run}"))
            body = bodies[number % len(bodies)] if method not in ("HEAD", "PROPFIND") else None
            self.ping(BACKUP, (250 - number) * 3, end=end, method=method, body=body, **headers)
        # A whole second: isoformat omits its fraction.
        with time_machine.travel((self.now - datetime.timedelta(hours=2)).replace(microsecond=0), tick=False):
            self.ask("GET", f"/ping/{self.uuids[BACKUP]}")

    def mails(self):
        """Creates pings by mail with the method that the mail process of Healthchecks uses."""
        from hc.api.models import Check

        self.check("Mailed", timeout=2 * DAY, tags="mail", filter_subject=True, success_kw="done", failure_kw="failed")
        check = Check.objects.get(code=self.uuids["Mailed"])
        mails = [
            ("success", b"Subject: done\r\n\r\nAll volumes are fine.\r\n"),
            ("fail", "Subject: failed ž\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nž\r\n".encode()),
            ("ign", b"Subject: hello\r\n\r\n\xff\xfe"),
            ("success", b"Subject: done\r\n\r\n" + b"x" * 20_000),
        ]
        for place, (action, message) in enumerate(mails):
            with time_machine.travel(self.at(40 - 5 * place), tick=False):
                peer = "192.0.2.9" if place % 2 else "2001:db8::9"
                check.ping(peer, "email", "", f"Email from nas-{place}@example.org", message, action, None)

    def office(self):
        """Creates a log above its limit that is not pruned yet, old flips, and runs without known starts."""
        make = functools.partial(self.check, project="office")
        make("Long ago", hours=24 * 250, timeout=7 * DAY)
        for age, end in [(240, ""), (239, "/fail"), (200, ""), (10, "/fail"), (9, "")]:
            self.ping("Long ago", 24 * age, end=end)
        self.ping("Long ago", 40)
        make("Short log", timeout=7 * DAY, tags="prod")
        for number in range(48):
            self.ping("Short log", 100 - 2 * number, end=["/start", "", "/log"][number % 3], method="POST", body=b"%d" % number)
        make("Ends alone", timeout=7 * DAY)
        for number in range(15):
            self.ping("Ends alone", 40 - number, end=f"?rid={healthchecks.code(f'end {number}')}")
        self.ping("Ends alone", 20, end="/start")
        self.ping("Ends alone", 19)

    def look(self):
        """Collects the data for the differences: flips that overdue has too (down after up, up after down) and whether they are older than two
        months, as (second, up) of each check; and channels of kinds that no longer exist."""
        from hc.api.models import Channel, Flip

        month = self.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        for _ in range(2):
            month = (month - datetime.timedelta(days=1)).replace(day=1)
        self.flips, self.old_flips = collections.defaultdict(set), collections.defaultdict(set)
        for flip in Flip.objects.select_related("owner"):
            entry = (flip.created.replace(microsecond=0).isoformat(), int(flip.new_status == "up"))
            if {flip.old_status, flip.new_status} == {"up", "down"}:
                (self.old_flips if flip.created < month else self.flips)[str(flip.owner.code)].add(entry)
        self.gone_channels = {str(code) for code in Channel.objects.filter(kind="hipchat").values_list("code", flat=True)}

    def waiting_alarms(self):
        """Returns the alerts that Healthchecks would send to the alarm channel now."""
        from hc.api.models import Flip

        alerts = []
        for flip in Flip.objects.filter(processed=None).select_related("owner"):
            kinds = set(flip.owner.channel_set.values_list("kind", flat=True))
            if kinds == {"webhook"} and any(channel.code == ALARMS for channel in flip.select_channels()):
                alerts.append((f"{flip.owner.code}", flip.new_status))
        return alerts
