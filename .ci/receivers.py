"""Lets alerts reach real receivers: a mail server (aiosmtpd), and Alertmanager and a Matrix server (Synapse) where they are installed.

    python .ci/receivers.py BINARY
"""
import email
import email.policy
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from aiosmtpd.controller import Controller

binary = pathlib.Path(sys.argv[1]).resolve()
work = pathlib.Path(tempfile.mkdtemp(prefix="receivers"))
(data := work / "data").mkdir(mode=0o700)
running = []


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(*words, cwd=work):
    log = open(work / f"{pathlib.Path(str(words[0])).name}.log", "ab")
    process = subprocess.Popen([str(word) for word in words], cwd=cwd, stdout=log, stderr=log)
    running.append(process)
    return process


def overdue(*words):
    done = subprocess.run([binary, *words, "--data", data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def call(url, body=None, token=None):
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def until(what, look, seconds=20):
    """Looks again and again; what was found."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = look()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{what}: not seen in {seconds} s; the logs are in {work}")


class Mails:
    def __init__(self):
        self.taken = []

    async def handle_DATA(self, server, session, envelope):
        self.taken.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"


def channel(kind, *settings):
    words = [word for setting in ("every=on", *settings) for word in ("--set", setting)]
    overdue("channel", "create", "--project", "default", "--kind", kind, "--name", kind, *words)


def alertmanager():
    port = free_port()
    (work / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    start("prometheus-alertmanager", "--config.file=alertmanager.yml", f"--storage.path={work}/alertmanager",
          f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=")
    url = f"http://127.0.0.1:{port}"
    until("Alertmanager", lambda: call(f"{url}/api/v2/status"))
    channel("alertmanager", f"url={url}")
    return url


def matrix():
    port = free_port()
    (home := work / "synapse").mkdir()
    synapse = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"]
    subprocess.run([*synapse, "--server-name", "localhost", "--generate-config", "--report-stats=no"], cwd=home, check=True, capture_output=True)
    config = home / "homeserver.yaml"
    config.write_text(config.read_text().replace("port: 8008", f"port: {port}") + "\nsuppress_key_server_warning: true\n")
    start(*synapse, cwd=home)
    url = f"http://127.0.0.1:{port}/_matrix/client"
    until("Synapse", lambda: call(f"{url}/versions"), 60)
    register = pathlib.Path(sys.executable).with_name("register_new_matrix_user")

    def user(name):
        subprocess.run([register, "-u", name, "-p", name, "--no-admin", "-c", config, f"http://127.0.0.1:{port}"], check=True, capture_output=True)
        login = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": name}
        return call(f"{url}/v3/login", login)["access_token"]

    ann, bot = user("ann"), user("bot")
    room = call(f"{url}/v3/createRoom", {"preset": "private_chat", "invite": ["@bot:localhost"]}, ann)["room_id"]
    channel("matrix", f"server=http://127.0.0.1:{port}", f"token={bot}", f"room={room}")
    return lambda: [event["content"]["body"] for event in call(f"{url}/v3/rooms/{room}/messages?dir=b&limit=20", token=ann)["chunk"]
                    if event["type"] == "m.room.message"]


mails = Mails()
mail_server = Controller(mails, hostname="127.0.0.1", port=free_port())
mail_server.start()
port = free_port()
base = f"http://127.0.0.1:{port}"
try:
    start(binary, "serve", "--data", data, "--listen", f"127.0.0.1:{port}", "--time-zone", "UTC",
          "--mail-server", f"smtp+plain://127.0.0.1:{mail_server.port}", "--mail-from", "overdue <alerts@example.org>")
    until("overdue", lambda: socket.create_connection(("127.0.0.1", port)))
    channel("email", "to=ops@example.org")
    alerts = alertmanager() if shutil.which("prometheus-alertmanager") else None
    try:
        import synapse  # noqa: F401
        messages = matrix()
    except ImportError:
        messages = None
    key = overdue("key", "create", "--project", "default", "--access", "ping")

    def ping(word="", body=b""):
        urllib.request.urlopen(f"{base}/ping/{key}/nightly-backup{word}", data=body, timeout=10).read()

    ping("?create=1")
    ping("/3", b"df: no <space> left")
    down = until("a mail that it is down", lambda: mails.taken and mails.taken[0])
    assert down["subject"] == "DOWN | nightly-backup" and not down.defects, down
    text = down.get_body(("plain",)).get_content()
    assert "exit status 3" in text and "df: no <space> left" in text, text
    assert "no &lt;space&gt; left" in down.get_body(("html",)).get_content()
    if alerts:
        found = until("an alert", lambda: call(f"{alerts}/api/v2/alerts"))
        assert found[0]["labels"]["check"] == "nightly-backup", found
    if messages:
        assert "nightly-backup failed with exit status 3" in until("a message", messages)[0]
    ping()
    up = until("a mail that it is up", lambda: mails.taken[1:] and mails.taken[1])
    assert up["subject"] == "UP | nightly-backup" and up["in-reply-to"] == down["message-id"], up
    if alerts:
        until("the end of the alert", lambda: call(f"{alerts}/api/v2/alerts") == [] or None)
    if messages:
        until("a second message", lambda: len(messages()) == 2)
    assert len(mails.taken) == 2, mails.taken
    seen = ["a mail server", *(["Alertmanager"] if alerts else []), *(["a Matrix server"] if messages else [])]
    print("told when it was down and when it was up:", ", ".join(seen))
finally:
    mail_server.stop()
    for process in running:
        process.terminate()
        process.wait(10)
shutil.rmtree(work)
