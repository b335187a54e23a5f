"""Clients of a cluster: they send pings, read numbers of pings and receive alerts, and record all of it."""

import datetime
import http.server
import json
import random
import socket
import threading
import time

from history import NEVER, Alert, Ping, Read
from machines import CLIENTS, HTTP_PORT

# As `curl -m 10`.
TIMEOUT = 10


class Connection:
    """Kept-alive HTTP connection to one machine after the other."""

    def __init__(self, machines, first):
        self.machines, self.next, self.socket, self.buffer = machines, first, None, b""

    def request(self, text):
        """Returns status and body of the answer; None and the error without one."""
        try:
            if self.socket is None:
                machine, self.next = self.machines[self.next % len(self.machines)], self.next + 1
                self.socket, self.buffer = socket.create_connection((machine.address(0), HTTP_PORT), timeout=TIMEOUT), b""
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.sendall(text)
            return self.answer()
        except (OSError, ValueError) as error:
            self.close()
            return None, repr(error)

    def answer(self):
        while b"\r\n\r\n" not in self.buffer:
            self.receive()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.lower().split(b"\r\n")
        status = int(lines[0].split(b" ")[1])
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        length = int(headers.get(b"content-length", 0))
        while len(self.buffer) < length:
            self.receive()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        if status >= 500 or headers.get(b"connection") == b"close":
            self.close()
        return status, body

    def receive(self):
        part = self.socket.recv(65536)
        if not part:
            raise ValueError("the connection ended")
        self.buffer += part

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None


def post(path, body):
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class Clients:
    """All clients. `checks`: UUIDs by slug. Those that begin with `flap` fail and succeed in turn, each by one client."""

    def __init__(self, machines, checks, key, rate, seed):
        self.machines, self.checks, self.key, self.seed = machines, checks, key, seed
        self.pings, self.reads, self.errors = [], [], []
        self.end, self.end_of_flaps = threading.Event(), threading.Event()
        pinged = [slug for slug in checks if not slug.startswith("flap")]
        flapping = [slug for slug in checks if slug.startswith("flap")]
        senders = 4 * len(pinged)
        self.pause = senders / rate
        jobs = [(self.send, pinged[number % len(pinged)]) for number in range(senders)]
        jobs += [(self.flap, slug) for slug in flapping] + [(self.read, slug) for slug in checks for _ in range(2)]
        self.threads = [threading.Thread(target=self.guard, args=[number, *job], daemon=True) for number, job in enumerate(jobs)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop_flapping(self):
        self.end_of_flaps.set()

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise RuntimeError(self.errors)

    def guard(self, number, job, slug):
        try:
            job(number, slug, Connection(self.machines, number), random.Random(f"{self.seed}-{number}"))
        except Exception as error:
            self.errors.append(repr(error))

    def ping(self, connection, slug, body, kind, query=""):
        path = f"/ping/{self.checks[slug]}{'/fail' if kind == 'fail' else ''}{query}"
        sent = time.monotonic()
        status, _ = connection.request(post(path, body))
        answered = time.monotonic() if status is not None else NEVER
        self.pings.append(Ping(slug, body, kind, sent, answered, status))
        return status

    def send(self, number, slug, connection, dice):
        count = 0
        while not self.end.is_set():
            count += 1
            # A malformed run ID is refused.
            query = "?rid=none" if dice.random() < 0.02 else ""
            status = self.ping(connection, slug, f"{slug}-{number}-{count}", "success", query)
            if status is None or status >= 500:
                self.end.wait(0.1)
            self.end.wait(dice.expovariate(1 / self.pause))

    def flap(self, number, slug, connection, dice):
        count = 0
        while not self.end_of_flaps.is_set():
            count += 1
            self.ping(connection, slug, f"{slug}-{number}-{count}", "fail" if count % 2 else "success")
            # More than a second, so that the time of an alert names its flip.
            self.end_of_flaps.wait(1.1 + dice.random())

    def read(self, number, slug, connection, dice):
        request = f"GET /api/v3/checks/{self.checks[slug]} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {self.key}\r\n\r\n".encode()
        while not self.end.is_set():
            sent = time.monotonic()
            status, body = connection.request(request)
            if status == 200:
                self.reads.append(Read(slug, sent, time.monotonic(), json.loads(body)["n_pings"]))
            self.end.wait(dice.uniform(0, 0.3))

    def acknowledged_since(self, begin):
        return sum(ping.is_acknowledged() and ping.sent > begin for ping in reversed(self.pings[-1000:]))

    def longest_silence(self, begin, end):
        """Longest time without an acknowledged ping, in seconds."""
        answers = (ping.answered for ping in self.pings if ping.is_acknowledged())
        times = sorted([begin, end, *(time for time in answers if begin < time < end)])
        return max(later - one for one, later in zip(times, times[1:]))


class Receiver:
    """Receiver of a webhook. It answers some requests with an error, or not at all."""

    def __init__(self, seed):
        self.alerts, self.fails = [], True
        alerts, receiver, dice, lock = self.alerts, self, random.Random(f"{seed}-receiver"), threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                at = int(datetime.datetime.fromisoformat(event["at"]).timestamp())
                is_marked = self.headers["Overdue-Possible-Duplicate"] == "true"
                with lock:
                    chance = dice.random() if receiver.fails else 1
                    # An error says that it did not arrive.
                    if chance >= 0.04:
                        number = int(self.headers["Idempotency-Key"].rsplit("-", 1)[1])
                        alerts.append(Alert(number, event["check"]["slug"], event["event"], at, is_marked))
                if 0.04 <= chance < 0.08:
                    self.close_connection = True
                    return
                self.send_response(503 if chance < 0.04 else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer((CLIENTS, 0), Handler)
        server.daemon_threads = True
        self.url = f"http://{CLIENTS}:{server.server_address[1]}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
