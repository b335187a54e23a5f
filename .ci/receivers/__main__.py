"""Lets alerts reach real receivers, and servers, schemas and clients of others that know what these expect.

    python .ci/receivers BINARY [--modules NODE_MODULES] [--unpacked ROOT]

What is not installed is left out, and told in a line. `install` beside this says what there can be.
"""
import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import alertmanager
import cards
import mail
import matrix
import oracle
import proxies
import telegram
from place import Place, Server

parser = argparse.ArgumentParser()
parser.add_argument("binary")
parser.add_argument("--modules", default="node_modules", help="where Node's packages are")
parser.add_argument("--unpacked", default="/", help="where Debian's packages are unpacked")
options = parser.parse_args()
binary, modules, unpacked = (pathlib.Path(path).resolve() for path in (options.binary, options.modules, options.unpacked))
os.environ["PATH"] += f":{unpacked / 'usr/bin'}:{unpacked / 'usr/sbin'}"


def leave_out(text):
    print(f"   left out: {text}", flush=True)


def has_module(name):
    return shutil.which("node") is not None and (modules / name).is_dir()


def together():
    """One server whose alerts all of them get: down, and up again."""
    with Place("receivers") as place:
        mails, told = mail.Mails(), ["aiosmtpd"]
        relay, remove_relay = mails.port, lambda: None
        if mail.may_start_postfix():
            relay, remove_relay = mail.postfix(place, mails.port)
            told.append("behind Postfix")
        else:
            leave_out("mail through Postfix: it is not installed, or this user may not start it")
        try:
            overdue = Server(binary, place, ["--mail-server", f"smtp+plain://127.0.0.1:{relay}", "--mail-from", "overdue <alerts@example.org>"])
            overdue.serve()
            overdue.channel("email", "to=ops@example.org")
            others = []
            if alertmanager.is_there(unpacked):
                alerts = alertmanager.Alertmanager(place, unpacked)
                overdue.channel("alertmanager", f"url={alerts.url}")
                others.append(alerts)
            else:
                alerts = leave_out("alerts to Alertmanager: it cannot be had")
            if has_module("telegram-test-api"):
                others.append(telegram.Telegram(place, modules))
                overdue.channel("telegram", *others[-1].settings)
            else:
                leave_out("alerts to telegram-test-api: it cannot be had")
            if matrix.is_there():
                others.append(matrix.Matrix(place))
                overdue.channel("matrix", *others[-1].settings)
            else:
                leave_out("alerts to Synapse: it cannot be had")
            overdue.ping("nightly-backup", "?create=1")
            overdue.ping("nightly-backup", "/3", b"df: no <space> left")
            down = mails.wait_for("a mail that it is down", 1)
            assert down["subject"] == "DOWN | nightly-backup", down
            text = down.get_body(("plain",)).get_content()
            assert "exit status 3" in text and "df: no <space> left" in text, text
            assert "no &lt;space&gt; left" in down.get_body(("html",)).get_content()
            for other in others:
                other.is_down()
            if alerts:
                alerts.restart()
            yield
            if alerts:
                alerts.is_down_again()
            overdue.ping("nightly-backup")
            up = mails.wait_for("a mail that it is up", 2)
            assert up["subject"] == "UP | nightly-backup" and up["in-reply-to"] == down["message-id"], up
            for other in others:
                other.is_up()
            # Names are any text, and come back as they were.
            name = 'Ünïcode ☃, "quoted" <b> & more than one piece of a header holds, by far'
            check = overdue.api("POST", "/api/v3/checks/", {"name": name, "slug": "named"})
            assert check["slug"] == "named"
            overdue.ping("named", "/fail")
            named = mails.wait_for("a mail with any name", 3)
            assert named["subject"] == f"DOWN | {name}" and named.get_content_type() == "multipart/alternative", named["subject"]
            assert len(mails.taken) == 3, mails.taken
            if alerts:
                alerts.takes_what_is_sent()
            told += [type(other).__name__ for other in others]
            print("   told when it was down and when it was up:", ", ".join(told), flush=True)
        finally:
            remove_relay()
            mails.server.stop()


def alone():
    """Those that need no more than a test, or what the snapshots hold."""
    if has_module("smtp-server") and importlib.util.find_spec("trustme"):
        yield mail.strict(binary, modules)
    else:
        leave_out("mail to smtp-server: it cannot be had")
    if has_module("adaptivecards"):
        yield cards.check(modules)
    else:
        leave_out("cards for Teams: adaptivecards cannot be had")
    if importlib.util.find_spec("apprise"):
        yield oracle.check(binary)
    else:
        leave_out("what Apprise sends beside what is sent here: it cannot be had")
    tinyproxy = proxies.tinyproxy_of(unpacked)
    if not tinyproxy:
        leave_out("tinyproxy: it cannot be had")
    if importlib.util.find_spec("pproxy") is None:
        leave_out("pproxy: it cannot be had")
    if importlib.util.find_spec("trustme"):
        yield proxies.check(binary, tinyproxy)
    yield from names()


def names():
    apart = ["unshare", "--net", "--mount"]
    may = importlib.util.find_spec("dnslib") and shutil.which("ip") and subprocess.run([*apart, "true"], capture_output=True).returncode == 0
    if not may:
        return leave_out("names in a root of their own: dnslib or ip cannot be had, or this user may not make a network")
    done = subprocess.run([*apart, sys.executable, pathlib.Path(__file__).with_name("names.py"), binary], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    yield done.stdout.strip()


# While Alertmanager waits to be told again, the others have their turn.
shared = together()
next(shared)
for line in alone():
    print(f"   {line}", flush=True)
next(shared, None)
