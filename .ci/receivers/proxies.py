"""The way out through proxies: tinyproxy (HTTP, CONNECT) and pproxy (SOCKS5), to a receiver with TLS."""
import http.server
import importlib.util
import shutil
import socket
import ssl
import sys
import threading

from place import Place, Server, free_port, until


class Taken(http.server.ThreadingHTTPServer):
    """Takes every request and keeps it."""

    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0), context=None):
        self.taken = []
        super().__init__(address, Keep)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Keep(http.server.BaseHTTPRequestHandler):
    def keep(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.taken.append((self.command, self.path, dict(self.headers), body, self.client_address[0]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    do_POST = do_PUT = do_GET = keep

    def log_message(self, *_):
        pass


def tls(place):
    """The context of a server for `localhost`, and the file of the authority that vouches for it."""
    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(place.home / "authority.pem")
    return context, place.home / "authority.pem"


def check(binary, tinyproxy):
    with Place("proxies") as place:
        context, authority = tls(place)
        plain, secure = Taken(), Taken(context=context)
        overdue = Server(binary, place)
        overdue.run("project", "create", "default")
        overdue.channel("webhook", f"down-url=http://127.0.0.1:{plain.server_port}/plain", "body=x", name="plain")
        overdue.channel("webhook", f"down-url=https://localhost:{secure.server_port}/secure", "body=x", name="secure")
        ways = {}
        if tinyproxy:
            port = free_port()
            ways["tinyproxy"] = ("http", port, place.home / "tinyproxy.out")
            (place.home / "tinyproxy.conf").write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogLevel Connect\nConnectPort {secure.server_port}\n")
            place.start(tinyproxy, "-d", "-c", "tinyproxy.conf", stdout=open(ways["tinyproxy"][2], "wb"))
        if importlib.util.find_spec("pproxy"):
            port = free_port()
            ways["pproxy"] = ("socks5", port, place.home / "pproxy.out")
            place.start(sys.executable, "-m", "pproxy", "-l", f"socks5://127.0.0.1:{port}", "-v", stdout=open(ways["pproxy"][2], "wb"),
                        env={"PYTHONUNBUFFERED": "1"})
        for name, (scheme, port, log) in ways.items():
            until(name, lambda: socket.create_connection(("127.0.0.1", port)))
            for channel, server, flags in [("plain", plain, []), ("secure", secure, ["--ca-file", authority])]:
                before = len(server.taken)
                overdue.try_channel(channel, "--outbound-proxy", f"{scheme}://127.0.0.1:{port}", *flags)
                assert len(server.taken) == before + 1 and server.taken[-1][1] == f"/{channel}", server.taken
            # It went that way.
            until(f"what {name} says of it", lambda: str(secure.server_port) in log.read_text(errors="replace"))
        # A proxy that is gone is told by name, and nothing goes round it.
        before, gone = len(plain.taken), free_port()
        told = overdue.try_channel("plain", "--outbound-proxy", f"http://127.0.0.1:{gone}", fails=True)
        assert str(gone) in told and len(plain.taken) == before, told
    return f"proxies: {', '.join([*ways, 'and one that is gone'])}"


def tinyproxy_of(root):
    """The program, installed or unpacked."""
    unpacked = root / "usr/bin/tinyproxy"
    return shutil.which("tinyproxy") or (unpacked if unpacked.exists() else None)
