"""What all receivers need: a place of their own, programs that end with it, ports, waiting, and the server whose alerts they get."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# How long is waited for what must come. A machine that does other things as well takes its time.
PATIENCE = 60


def free_port(host="127.0.0.1"):
    with socket.socket() as free:
        free.bind((host, 0))
        return free.getsockname()[1]


def call(url, body=None, token=None, method=None):
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode(), method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def until(what, look, seconds=PATIENCE):
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
    raise AssertionError(f"{what}: not seen in {seconds} s")


class Place:
    """A directory and programs, which end with it."""

    def __init__(self, name):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in reversed(self.running):
            self.end(process)
        if kind:
            print(f"what the programs said is in {self.home}")
        else:
            shutil.rmtree(self.home, ignore_errors=True)

    def start(self, *words, env=None, **options):
        log = open(self.home / f"{pathlib.Path(str(words[0])).name}.log", "ab")
        options.setdefault("cwd", self.home)
        options.setdefault("stdout", log)
        process = subprocess.Popen([str(word) for word in words], stderr=log, env={**os.environ, **(env or {})}, **options)
        self.running.append(process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Server:
    """An overdue server, and the project `default` in it."""

    def __init__(self, binary, place, flags=()):
        self.binary, self.place, self.flags = binary, place, [str(flag) for flag in flags]
        self.data = place.home / "data"
        self.data.mkdir(mode=0o700)
        self.base = None

    def run(self, *words, fails=False):
        """What a command prints; of one that fails what it says."""
        done = subprocess.run([self.binary, *(str(word) for word in words), "--data", self.data], capture_output=True, text=True, timeout=120)
        assert (done.returncode != 0) == fails, f"{words}: {done.stdout}{done.stderr}"
        return (done.stderr if fails else done.stdout).strip()

    def serve(self):
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.place.start(self.binary, "serve", "--data", self.data, "--listen", f"127.0.0.1:{port}", "--time-zone", "UTC", *self.flags)
        # It listens before it has opened the database.
        until("overdue", lambda: urllib.request.urlopen(f"{self.base}/healthz", timeout=60))
        self.ping_key = self.run("key", "create", "--project", "default", "--access", "ping")
        self.api_key = self.run("key", "create", "--project", "default", "--access", "read-write")
        return self

    def channel(self, kind, *settings, name=None, every=True):
        words = [word for setting in (*(["every=on"] if every else []), *settings) for word in ("--set", setting)]
        self.run("channel", "create", "--project", "default", "--kind", kind, "--name", name or kind, *words)

    def try_channel(self, name, *flags, fails=False):
        """Sends a test, which works without a server, too; what it says."""
        return self.run("channel", "test", name, *flags, fails=fails)

    def status(self, name):
        """What `channel list` says of a channel."""
        return next(channel for channel in json.loads(self.run("channel", "list", "--json")) if channel["name"] == name)

    def api(self, method, path, body=None):
        request = urllib.request.Request(f"{self.base}{path}", method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("X-Api-Key", self.api_key)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def ping(self, slug, word="", body=b""):
        urllib.request.urlopen(f"{self.base}/ping/{self.ping_key}/{slug}{word}", data=body, timeout=60).read()
