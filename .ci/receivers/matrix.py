"""A Matrix server (Synapse): the bot joins the room that it was invited to, and a message sent twice with one transaction ID is shown once."""
import http.client
import http.server
import importlib.util
import pathlib
import subprocess
import sys
import threading

from place import call, free_port, wait_until


def is_available():
    return importlib.util.find_spec("synapse") is not None


class LossyProxy(http.server.ThreadingHTTPServer):
    """A proxy in front of the server that drops the answer to the first accepted message."""

    daemon_threads = True

    def __init__(self, server_port):
        self.upstream_port, self.has_dropped, self.puts = server_port, False, []
        super().__init__(("127.0.0.1", 0), ForwardingHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Ignores errors: at the end the server stops before the proxy."""


class ForwardingHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        if self.command == "PUT":
            self.server.puts.append((self.path, answer.status))
            if answer.status == 200 and not self.server.has_dropped:
                self.server.has_dropped = self.close_connection = True
                return
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET = forward

    def log_message(self, *_):
        pass


class Matrix:
    def __init__(self, workspace):
        port = free_port()
        (home := workspace.home / "synapse").mkdir()
        synapse = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"]
        subprocess.run([*synapse, "--server-name", "localhost", "--generate-config", "--report-stats=no"], cwd=home, check=True, capture_output=True)
        config = home / "homeserver.yaml"
        config.write_text(config.read_text().replace("port: 8008", f"port: {port}") + "\nsuppress_key_server_warning: true\n")
        workspace.start(*synapse, cwd=home)
        self.url = f"http://127.0.0.1:{port}/_matrix/client"
        wait_until("Synapse", lambda: call(f"{self.url}/versions"), 120)
        register = pathlib.Path(sys.executable).with_name("register_new_matrix_user")

        def user(name):
            subprocess.run([register, "-u", name, "-p", name, "--no-admin", "-c", config, f"http://127.0.0.1:{port}"], check=True, capture_output=True)
            login = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": name}
            return call(f"{self.url}/v3/login", login)["access_token"]

        self.ann, self.bot = user("ann"), user("bot")
        self.room = call(f"{self.url}/v3/createRoom", {"preset": "private_chat", "invite": ["@bot:localhost"]}, self.ann)["room_id"]
        self.lossy = LossyProxy(port)
        self.settings = [f"server=http://127.0.0.1:{self.lossy.server_port}", f"token={self.bot}", f"room={self.room}"]

    def messages(self):
        found = call(f"{self.url}/v3/rooms/{self.room}/messages?dir=b&limit=20", token=self.ann)["chunk"]
        return [event["content"]["body"] for event in reversed(found) if event["type"] == "m.room.message"]

    def is_down(self):
        assert "nightly-backup failed with exit status 3" in wait_until("a message", self.messages)[0]

    def is_up(self):
        wait_until("a second message", lambda: len(self.messages()) >= 2)
        messages = self.messages()
        assert len(messages) == 2 and "nightly-backup is up again" in messages[1], messages
        # The first message was accepted, its answer dropped, and it was sent again with the same ID.
        accepted = [path for path, status in self.lossy.puts if status == 200]
        assert accepted[0] == accepted[1] and len(set(accepted)) == 2, self.lossy.puts
