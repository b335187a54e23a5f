"""Helpers for all receivers: a temporary directory with its programs, ports, waiting, and the server that sends the alerts."""
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

# Timeout in seconds for expected events, long enough for a busy machine.
TIMEOUT = 60


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


def wait_until(event, find, seconds=TIMEOUT):
    """Calls `find` until it returns something true, which is returned."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = find()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{event}: not seen in {seconds} s")


class Workspace:
    """A temporary directory, and programs that are ended with it."""

    def __init__(self, name):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in reversed(self.running):
            self.end(process)
        if kind:
            print(f"the logs of the programs are in {self.home}")
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
    """An overdue server with the project `default`."""

    def __init__(self, binary, workspace, flags=()):
        self.binary, self.workspace, self.flags = binary, workspace, [str(flag) for flag in flags]
        self.data = workspace.home / "data"
        self.data.mkdir(mode=0o700)
        self.base = None

    def run(self, *words, fails=False):
        """Runs a command. Returns its output, or its errors if it has to fail."""
        done = subprocess.run([self.binary, *(str(word) for word in words), "--data", self.data], capture_output=True, text=True, timeout=120)
        assert (done.returncode != 0) == fails, f"{words}: {done.stdout}{done.stderr}"
        return (done.stderr if fails else done.stdout).strip()

    def serve(self):
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.workspace.start(self.binary, "serve", "--data", self.data, "--listen", f"127.0.0.1:{port}", "--time-zone", "UTC", *self.flags)
        # The server listens before it has opened the database.
        wait_until("overdue", lambda: urllib.request.urlopen(f"{self.base}/healthz", timeout=60))
        self.ping_key = self.run("key", "create", "--project", "default", "--access", "ping")
        self.api_key = self.run("key", "create", "--project", "default", "--access", "read-write")
        return self

    def channel(self, kind, *settings, name=None, every=True):
        words = [word for setting in (*(["every=on"] if every else []), *settings) for word in ("--set", setting)]
        self.run("channel", "create", "--project", "default", "--kind", kind, "--name", name or kind, *words)

    def test_channel(self, name, *flags, fails=False):
        """Sends a channel test, with or without a server. Returns its output."""
        return self.run("channel", "test", name, *flags, fails=fails)

    def status(self, name):
        """Returns a channel as `channel list` shows it."""
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
