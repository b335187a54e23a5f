"""A Matrix server (Synapse): the bot joins the room that it was invited to, and what is sent twice under one transaction id is there once."""
import http.client
import http.server
import importlib.util
import pathlib
import subprocess
import sys
import threading

from place import call, free_port, until


def is_there():
    return importlib.util.find_spec("synapse") is not None


class Lossy(http.server.ThreadingHTTPServer):
    """Stands before the server and hands everything on; of the first message that the server took it loses the answer."""

    daemon_threads = True

    def __init__(self, behind):
        self.behind, self.lost, self.puts = behind, False, []
        super().__init__(("127.0.0.1", 0), Handed)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """At the end the server behind it goes first."""


class Handed(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def hand_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        onward = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        onward.request(self.command, self.path, body, headers)
        answer = onward.getresponse()
        content = answer.read()
        if self.command == "PUT":
            self.server.puts.append((self.path, answer.status))
            if answer.status == 200 and not self.server.lost:
                self.server.lost = self.close_connection = True
                return
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET = hand_on

    def log_message(self, *_):
        pass


class Matrix:
    def __init__(self, place):
        port = free_port()
        (home := place.home / "synapse").mkdir()
        synapse = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"]
        subprocess.run([*synapse, "--server-name", "localhost", "--generate-config", "--report-stats=no"], cwd=home, check=True, capture_output=True)
        config = home / "homeserver.yaml"
        config.write_text(config.read_text().replace("port: 8008", f"port: {port}") + "\nsuppress_key_server_warning: true\n")
        place.start(*synapse, cwd=home)
        self.url = f"http://127.0.0.1:{port}/_matrix/client"
        until("Synapse", lambda: call(f"{self.url}/versions"), 120)
        register = pathlib.Path(sys.executable).with_name("register_new_matrix_user")

        def user(name):
            subprocess.run([register, "-u", name, "-p", name, "--no-admin", "-c", config, f"http://127.0.0.1:{port}"], check=True, capture_output=True)
            login = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": name}
            return call(f"{self.url}/v3/login", login)["access_token"]

        self.ann, self.bot = user("ann"), user("bot")
        self.room = call(f"{self.url}/v3/createRoom", {"preset": "private_chat", "invite": ["@bot:localhost"]}, self.ann)["room_id"]
        self.lossy = Lossy(port)
        self.settings = [f"server=http://127.0.0.1:{self.lossy.server_port}", f"token={self.bot}", f"room={self.room}"]

    def messages(self):
        found = call(f"{self.url}/v3/rooms/{self.room}/messages?dir=b&limit=20", token=self.ann)["chunk"]
        return [event["content"]["body"] for event in reversed(found) if event["type"] == "m.room.message"]

    def is_down(self):
        assert "nightly-backup failed with exit status 3" in until("a message", self.messages)[0]

    def is_up(self):
        until("a second message", lambda: len(self.messages()) >= 2)
        told = self.messages()
        assert len(told) == 2 and "nightly-backup is up again" in told[1], told
        # It was taken, the answer was lost, it came again under its name, and is there once.
        taken = [path for path, status in self.lossy.puts if status == 200]
        assert taken[0] == taken[1] and len(set(taken)) == 2, self.lossy.puts
