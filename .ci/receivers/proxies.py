"""Requests through proxies: tinyproxy (HTTP, CONNECT) and pproxy (SOCKS5), to receivers with and without TLS."""
import http.server
import importlib.util
import shutil
import socket
import ssl
import sys
import threading

from place import Server, Workspace, free_port, wait_until


class RecordingServer(http.server.ThreadingHTTPServer):
    """Accepts and records every request."""

    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0), context=None):
        self.requests = []
        super().__init__(address, RecordingHandler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class RecordingHandler(http.server.BaseHTTPRequestHandler):
    def record(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers), body, self.client_address[0]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    do_POST = do_PUT = do_GET = record

    def log_message(self, *_):
        pass


def tls(workspace):
    """Returns the TLS context of a server for `localhost`, and the certificate file of its authority."""
    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(workspace.home / "authority.pem")
    return context, workspace.home / "authority.pem"


def check(binary, tinyproxy):
    with Workspace("proxies") as workspace:
        context, authority = tls(workspace)
        plain, secure = RecordingServer(), RecordingServer(context=context)
        overdue = Server(binary, workspace)
        overdue.run("project", "create", "default")
        overdue.channel("webhook", f"down-url=http://127.0.0.1:{plain.server_port}/plain", "body=x", name="plain")
        overdue.channel("webhook", f"down-url=https://localhost:{secure.server_port}/secure", "body=x", name="secure")
        proxies = {}
        if tinyproxy:
            port = free_port()
            proxies["tinyproxy"] = ("http", port, workspace.home / "tinyproxy.out")
            (workspace.home / "tinyproxy.conf").write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogLevel Connect\nConnectPort {secure.server_port}\n")
            workspace.start(tinyproxy, "-d", "-c", "tinyproxy.conf", stdout=open(proxies["tinyproxy"][2], "wb"))
        if importlib.util.find_spec("pproxy"):
            port = free_port()
            proxies["pproxy"] = ("socks5", port, workspace.home / "pproxy.out")
            workspace.start(sys.executable, "-m", "pproxy", "-l", f"socks5://127.0.0.1:{port}", "-v", stdout=open(proxies["pproxy"][2], "wb"),
                        env={"PYTHONUNBUFFERED": "1"})
        for name, (scheme, port, log) in proxies.items():
            wait_until(name, lambda: socket.create_connection(("127.0.0.1", port)))
            for channel, server, flags in [("plain", plain, []), ("secure", secure, ["--ca-file", authority])]:
                before = len(server.requests)
                overdue.test_channel(channel, "--outbound-proxy", f"{scheme}://127.0.0.1:{port}", *flags)
                assert len(server.requests) == before + 1 and server.requests[-1][1] == f"/{channel}", server.requests
            # The proxy logged the connection.
            wait_until(f"the log of {name}", lambda: str(secure.server_port) in log.read_text(errors="replace"))
        # If the proxy is down, the error names it and no request bypasses it.
        before, unused_port = len(plain.requests), free_port()
        error = overdue.test_channel("plain", "--outbound-proxy", f"http://127.0.0.1:{unused_port}", fails=True)
        assert str(unused_port) in error and len(plain.requests) == before, error
    return f"proxies: {', '.join([*proxies, 'and one that is down'])}"


def find_tinyproxy(root):
    """Returns the path of the installed or unpacked program, or None."""
    unpacked = root / "usr/bin/tinyproxy"
    return shutil.which("tinyproxy") or (unpacked if unpacked.exists() else None)
