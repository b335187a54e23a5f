"""Sends alerts to real receivers, and to servers, schemas and clients of others that know their protocols.

    python .ci/receivers BINARY [--modules NODE_MODULES] [--unpacked ROOT]

Receivers that are not installed are skipped, with a line for each. The script `install` installs them.
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
from place import Server, Workspace

parser = argparse.ArgumentParser()
parser.add_argument("binary")
parser.add_argument("--modules", default="node_modules", help="directory of the Node packages")
parser.add_argument("--unpacked", default="/", help="directory of the unpacked Debian packages")
options = parser.parse_args()
binary, modules, unpacked = (pathlib.Path(path).resolve() for path in (options.binary, options.modules, options.unpacked))
os.environ["PATH"] += f":{unpacked / 'usr/bin'}:{unpacked / 'usr/sbin'}"


def skip(text):
    print(f"   skipped: {text}", flush=True)


def has_module(name):
    return shutil.which("node") is not None and (modules / name).is_dir()


def shared_server():
    """Runs one server whose alerts reach all receivers: down and up. Yields while Alertmanager waits for the next repeat."""
    with Workspace("receivers") as workspace:
        mails, receivers = mail.Mails(), ["aiosmtpd"]
        relay, remove_relay = mails.port, lambda: None
        if mail.may_start_postfix():
            relay, remove_relay = mail.postfix(workspace, mails.port)
            receivers.append("Postfix")
        else:
            skip("mail through Postfix: it is not installed, or this user may not start it")
        try:
            overdue = Server(binary, workspace, ["--mail-server", f"smtp+plain://127.0.0.1:{relay}", "--mail-from", "overdue <alerts@example.org>"])
            overdue.serve()
            overdue.channel("email", "to=ops@example.org")
            others = []
            if alertmanager.is_available(unpacked):
                alerts = alertmanager.Alertmanager(workspace, unpacked)
                overdue.channel("alertmanager", f"url={alerts.url}")
                others.append(alerts)
            else:
                alerts = skip("alerts to Alertmanager: it is not installed")
            if has_module("telegram-test-api"):
                others.append(telegram.Telegram(workspace, modules))
                overdue.channel("telegram", *others[-1].settings)
            else:
                skip("alerts to telegram-test-api: it is not installed")
            if matrix.is_available():
                others.append(matrix.Matrix(workspace))
                overdue.channel("matrix", *others[-1].settings)
            else:
                skip("alerts to Synapse: it is not installed")
            overdue.ping("nightly-backup", "?create=1")
            overdue.ping("nightly-backup", "/3", b"df: no <space> left")
            down = mails.wait_for("the mail about the downtime", 1)
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
            up = mails.wait_for("the mail about the recovery", 2)
            assert up["subject"] == "UP | nightly-backup" and up["in-reply-to"] == down["message-id"], up
            for other in others:
                other.is_up()
            # A name may be any text, and arrives unchanged.
            name = 'Ünïcode ☃, "quoted" <b> & much longer than one encoded word of a header may be'
            check = overdue.api("POST", "/api/v3/checks/", {"name": name, "slug": "named"})
            assert check["slug"] == "named"
            overdue.ping("named", "/fail")
            named = mails.wait_for("the mail with the special name", 3)
            assert named["subject"] == f"DOWN | {name}" and named.get_content_type() == "multipart/alternative", named["subject"]
            assert len(mails.received) == 3, mails.received
            if alerts:
                alerts.accepts_snapshots()
            receivers += [type(other).__name__ for other in others]
            print("   received the alerts for down and up:", ", ".join(receivers), flush=True)
        finally:
            remove_relay()
            mails.server.stop()


def separate_tests():
    """Yields the results of receivers that only need a channel test or the snapshots."""
    if has_module("smtp-server") and importlib.util.find_spec("trustme"):
        yield mail.strict(binary, modules)
    else:
        skip("mail to smtp-server: it is not installed")
    if has_module("adaptivecards"):
        yield cards.check(modules)
    else:
        skip("cards for Teams: adaptivecards is not installed")
    if importlib.util.find_spec("apprise"):
        yield oracle.check(binary)
    else:
        skip("comparison with Apprise: it is not installed")
    tinyproxy = proxies.find_tinyproxy(unpacked)
    if not tinyproxy:
        skip("tinyproxy: it is not installed")
    if importlib.util.find_spec("pproxy") is None:
        skip("pproxy: it is not installed")
    if importlib.util.find_spec("trustme"):
        yield proxies.check(binary, tinyproxy)
    yield from names()


def names():
    namespace = ["unshare", "--net", "--mount"]
    is_possible = importlib.util.find_spec("dnslib") and shutil.which("ip") and subprocess.run([*namespace, "true"], capture_output=True).returncode == 0
    if not is_possible:
        return skip("name servers in a network namespace: dnslib or ip is not installed, or this user may not create one")
    done = subprocess.run([*namespace, sys.executable, pathlib.Path(__file__).with_name("names.py"), binary], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    yield done.stdout.strip()


# The other receivers are tested while Alertmanager waits for the next repeat.
shared = shared_server()
next(shared)
for line in separate_tests():
    print(f"   {line}", flush=True)
next(shared, None)
