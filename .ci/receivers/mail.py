"""Mail servers: aiosmtpd, behind Postfix where that is installed and may be started, and Nodemailer's smtp-server with TLS and passwords."""
import base64
import email
import email.policy
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

from place import Server, Workspace, free_port, wait_until


def parse(raw):
    """Returns a mail as Python reads it, which finds no defect in it."""
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert not mail.defects and not any(part.defects for part in mail.walk()), (mail.defects, raw)
    return mail


class Mails:
    """A mail server that records every mail."""

    def __init__(self):
        from aiosmtpd.controller import Controller

        self.received = []
        self.server = Controller(self, hostname="127.0.0.1", port=free_port())
        self.server.start()
        self.port = self.server.port

    async def handle_DATA(self, server, session, envelope):
        self.received.append(parse(envelope.content))
        return "250 OK"

    def wait_for(self, what, count):
        wait_until(what, lambda: len(self.received) >= count)
        return self.received[count - 1]


def may_start_postfix():
    return shutil.which("postfix") and os.geteuid() == 0


def postfix(workspace, relay_port):
    """Starts a Postfix on loopback that relays every mail to a port. Only root can start it, since its programs change their user."""
    port = free_port()
    home = pathlib.Path(tempfile.mkdtemp(prefix="postfix"))
    home.chmod(0o755)
    for name in ("config", "queue", "data"):
        (home / name).mkdir()
    shutil.chown(home / "data", "postfix")
    config = home / "config"
    (config / "main.cf").write_text(f"""compatibility_level = 3.6
queue_directory = {home}/queue
data_directory = {home}/data
maillog_file = /dev/stdout
inet_interfaces = loopback-only
inet_protocols = ipv4
myhostname = relay.example.org
mydestination =
relayhost = [127.0.0.1]:{relay_port}
smtpd_relay_restrictions = permit_mynetworks, reject
local_recipient_maps =
alias_maps =
alias_database =
""")
    services = [(f"127.0.0.1:{port}", "inet", "n", "-", "n", "-", "-", "smtpd"), ("pickup", "unix", "n", "-", "n", "60", "1", "pickup"),
                ("qmgr", "unix", "n", "-", "n", "300", "1", "qmgr"), ("postlog", "unix-dgram", "n", "-", "n", "-", "1", "postlogd")]
    unlimited = ["cleanup", "bounce", "defer bounce", "trace bounce"]
    for words in [*unlimited, "rewrite trivial-rewrite", "smtp", "retry error", "anvil"]:
        name, *program = words.split()
        limit = "0" if words in unlimited else "-"
        services.append((name, "unix", "n" if name == "cleanup" else "-", "-", "n", "-", limit, *(program or [name])))
    (config / "master.cf").write_text("".join(" ".join(service) + "\n" for service in services))
    workspace.start("postfix", "-c", config, "start-fg")
    wait_until("Postfix", lambda: socket.create_connection(("127.0.0.1", port)))

    def stop():
        subprocess.run(["postfix", "-c", config, "stop"], capture_output=True)
        shutil.rmtree(home, ignore_errors=True)

    return port, stop


class StrictServer:
    """Nodemailer's server, configured by `strict-mail.js`: one port for each kind of connection."""

    def __init__(self, workspace, modules):
        import trustme

        authority = trustme.CA()
        self.authority = workspace.home / "authority.pem"
        authority.cert_pem.write_to_path(self.authority)
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        key, chain = workspace.home / "key.pem", workspace.home / "chain.pem"
        certificate.private_key_pem.write_to_path(key)
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(chain, append=True)
        self.log = workspace.home / "mails.jsonl"
        script = pathlib.Path(__file__).with_name("strict-mail.js")
        workspace.start("node", script, env={"NODE_PATH": str(modules)}, stdout=open(self.log, "wb"),
                    cwd=workspace.home)
        lines = wait_until("smtp-server", self.lines)
        self.ports = lines[0]["ports"]
        self.passwords = workspace.home / "password"
        self.passwords.write_text("correct horse\n")

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def mails(self):
        return self.lines()[1:]

    def flags(self, way, scheme, user="overdue@"):
        words = ["--mail-server", f"{scheme}://{user}localhost:{self.ports[way]}", "--mail-from", "overdue <alerts@example.org>"]
        return [*words, *(["--mail-password-file", self.passwords] if user else [])]


def strict(binary, modules):
    """TLS, passwords, and what a server refuses for now and for good."""
    with Workspace("mail") as workspace:
        server = StrictServer(workspace, modules)
        overdue = Server(binary, workspace)
        overdue.run("project", "create", "default")
        for name in ("ops", "nobody", "full"):
            overdue.channel("email", f"to={name}@example.org", name=name)
        trusted = ["--ca-file", server.authority]
        for way, scheme, method in [("tls", "smtps", "PLAIN"), ("starttls", "smtp", "LOGIN")]:
            overdue.test_channel("ops", *server.flags(way, scheme), *trusted)
            mail = server.mails()[-1]
            assert (mail["way"], mail["secure"], mail["user"], mail["method"]) == (way, True, "overdue", method), mail
            assert parse(base64.b64decode(mail["raw"]))["to"] == "ops@example.org"
        count = len(server.mails())
        # No mail and no password is sent to a server without a trusted certificate or without TLS.
        for flags, expected in [(server.flags("tls", "smtps"), "certificate"), (server.flags("starttls", "smtp"), "certificate"),
                            ([*server.flags("bare", "smtp"), *trusted], "STARTTLS")]:
            error = overdue.test_channel("ops", *flags, fails=True)
            assert expected.lower() in error.lower(), error
        server.passwords.write_text("wrong\n")
        error = overdue.test_channel("ops", *server.flags("tls", "smtps"), *trusted, fails=True)
        assert "535" in error and "wrong" not in error, error
        server.passwords.write_text("correct horse\n")
        for name, code in [("nobody", "550"), ("full", "552")]:
            error = overdue.test_channel(name, *server.flags("tls", "smtps"), *trusted, fails=True)
            assert code in error, error
        assert len(server.mails()) == count, server.mails()[count:]

    with Workspace("mail") as workspace:
        server = StrictServer(workspace, modules)
        overdue = Server(binary, workspace, [*server.flags("tls", "smtps"), "--ca-file", server.authority]).serve()
        # The first attempt is deferred and the second accepted. A channel whose mails are all rejected fails, and its alert stays pending.
        overdue.channel("email", "to=later@example.org", name="later")
        overdue.channel("email", "to=full@example.org", name="full")
        overdue.ping("job", "?create=1")
        overdue.ping("job", "/fail")
        mail = wait_until("the mail after a 451", lambda: [mail for mail in server.mails() if mail["to"] == ["later@example.org"]])[0]
        assert parse(base64.b64decode(mail["raw"]))["subject"] == "DOWN | job"
        def full():
            return [channel for channel in json.loads(overdue.run("channel", "list", "--json")) if channel["name"] == "full"][0]
        wait_until("the failure in the list of channels", lambda: "552" in json.dumps(full()))
        assert full()["waiting"] == 1, full()
    return "smtp-server: TLS, STARTTLS, AUTH PLAIN and LOGIN, 451, 535, 550, 552"
