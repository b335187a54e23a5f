"""Comparison with Apprise: its requests to the same recorder have the same paths, headers and members as ours."""
import http.server
import json
import re
import sys
import threading

from place import Server, Workspace


class Recorder(http.server.ThreadingHTTPServer):
    """Records every request, and answers so that a client continues."""

    daemon_threads = True

    def __init__(self):
        self.requests = []
        super().__init__(("127.0.0.1", 0), RecordingHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class RecordingHandler(http.server.BaseHTTPRequestHandler):
    def record(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append(Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        answer = json.dumps({"room_id": "!abc:example.org", "user_id": "@bot:example.org", "event_id": "$1", "success": True, "versions": ["v1.1"],
                             "joined_rooms": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = record

    def log_message(self, *_):
        pass


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def members(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.method} {self.path} {self.headers} {self.body.decode(errors='replace')}"


# Kind: our settings, Apprise's URL, the path of the message in both, the header for authentication, members that the receiver requires, and
# members that only Apprise sends, with the reason why we do not.
CASES = {
    "ntfy": (["url=http://{at}", "topic=home", "token=tk_abcdefghijklmnopqrstuvwxyz123"], "ntfy://tk_abcdefghijklmnopqrstuvwxyz123@{at}/home",
             r"/", "authorization", {"topic": str, "title": str, "message": str}, {}),
    "gotify": (["url=http://{at}", "token=AbCdEfGhIjKlMnO"], "gotify://{at}/AbCdEfGhIjKlMnO",
               r"/message", "x-gotify-key", {"title": str, "message": str}, {"priority": "unset: the application's default applies"}),
    "mattermost": (["url=http://{at}/hooks/abcdefghijklmnopqrstuvwxyz"], "mmost://{at}/abcdefghijklmnopqrstuvwxyz",
                   r"/hooks/abcdefghijklmnopqrstuvwxyz", None, {}, {"text": "it is in the attachment", "icon_url": "its own picture", "username": "only if set"}),
    "rocketchat": (["url=http://{at}/hooks/abcdefghijklmnop/qrstuvwxyz"], "rocket://abcdefghijklmnop%2Fqrstuvwxyz@{at}/?mode=webhook",
                   r"/hooks/abcdefghijklmnop/qrstuvwxyz", None, {}, {"text": "it is in the attachment", "avatar": "its own picture"}),
    "matrix": (["server=http://{at}", "token=syt_abc", "room=!abc:example.org"], "matrix://syt_abc@{at}/!abc:example.org?msgtype=text",
               r"/_matrix/client/v3/rooms/(%21|!)abc(%3A|:)example.org/send/m.room.message/[^/?]+", "authorization", {"msgtype": str, "body": str}, {}),
    "signal": (["url=http://{at}", "api=rest", "account=+12025550100", "to=+37120000000"], "signal://{at}/+12025550100/+37120000000",
               r"/v2/send", None, {"message": str, "number": str, "recipients": list}, {"text_mode": "its default"}),
    "apprise": (["url=http://{at}", "key=opsopsops"], "apprise://{at}/opsopsops?version=1&method=json&format=markdown",
                r"/notify/opsopsops/?", None, {"title": str, "body": str, "type": str, "format": str}, {}),
}


def check(binary):
    # Apprise looks for a desktop and fails without one.
    sys.modules["gi"] = None
    import apprise

    with Workspace("oracle") as workspace:
        recorder = Recorder()
        at = f"127.0.0.1:{recorder.server_port}"
        overdue = Server(binary, workspace)
        overdue.run("project", "create", "default")
        for kind, (settings, url, path, auth_header, required, only_theirs) in CASES.items():
            overdue.channel(kind, *(setting.format(at=at) for setting in settings), every=False)

            def message(send):
                before = len(recorder.requests)
                send()
                found = [request for request in recorder.requests[before:] if re.fullmatch(path, request.path) and request.method != "GET"]
                assert len(found) == 1, f"{kind}: {recorder.requests[before:]}"
                return found[0]

            ours = message(lambda: overdue.test_channel(kind))
            theirs = message(lambda: apprise_sends(apprise, url.format(at=at)))
            assert ours.method == theirs.method, f"{kind}: {ours.method}, Apprise {theirs.method}"
            for header in filter(None, ["content-type", auth_header]):
                ours_has, theirs_has = (request.headers.get(header, "").split(";")[0] for request in (ours, theirs))
                assert ours_has == theirs_has, f"{kind}: {header} is {ours_has}, Apprise has {theirs_has}"
            our_members, their_members = ours.members(), theirs.members()
            for member, form in required.items():
                assert isinstance(our_members.get(member), form) and isinstance(their_members.get(member), form), f"{kind}: {member}: {our_members} {their_members}"
            missing = set(their_members) - set(our_members) - set(only_theirs)
            assert not missing, f"{kind}: Apprise also sends {missing}: {their_members}"
            for member in set(our_members) & set(their_members):
                assert type(our_members[member]) is type(their_members[member]), f"{kind}: {member}: {our_members[member]!r}, Apprise {their_members[member]!r}"
    return f"Apprise {apprise.__version__} has the same paths, headers and members for {', '.join(CASES)}"


def apprise_sends(apprise, url):
    sender = apprise.Apprise()
    assert sender.add(url), url
    assert sender.notify(title="overdue", body="text", notify_type=apprise.NotifyType.FAILURE), url
