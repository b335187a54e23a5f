"""Permitted differences between the answers of Healthchecks and those of overdue after an import, each with its reason, and the comparison.

A difference that no answer has is an error too: the table is then outdated."""
import html
import json
import re
from datetime import datetime

CUT = "dumpdata cuts times to milliseconds, and lengths with them"
HEADERS = ["content-type", "access-control-allow-origin", "access-control-allow-headers", "access-control-allow-methods", "access-control-max-age"]


class ComparedAnswer:
    """The compared parts of an answer. The body is JSON, bytes, or the texts and colours of an image."""

    def __init__(self, answer):
        self.status = answer.status
        self.headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
        methods = self.headers.pop("access-control-allow-methods", None)
        if methods is not None:
            self.headers["access-control-allow-methods"] = sorted(methods.replace(" ", "").split(","))
        cached = answer.headers.get("cache-control")
        self.headers["is not cached"] = cached is not None and ("no-store" in cached or "no-cache" in cached)
        self.body = answer.body
        if self.headers.get("content-type") == "application/json":
            self.body = json.loads(answer.body)


def members(value, name):
    """Yields all objects in a document that have a member of this name."""
    if isinstance(value, dict):
        if name in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from members(part, name)


# Reasons, each with a rule that removes its difference from both answers.
TABLE = []


def because(reason):
    def register(rule):
        TABLE.append((reason, rule))
        return rule

    return register


@because("status/ needs a key, as all of the API does, and answers JSON")
def probe(question, theirs, ours, past):
    if question.path.endswith("/status/"):
        assert theirs.status == 200 and ours.status == (200 if question.is_known else 401), ours.status
        vars(theirs).update(vars(ours))


@because("overdue has its metrics at /metrics")
def metrics(question, theirs, ours, past):
    if question.path.endswith("/metrics/"):
        assert ours.status == 404, ours.status
        vars(theirs).update(vars(ours))


@because("except for 401, the text of an error is not specified; in overdue all errors have CORS headers")
def words(question, theirs, ours, past):
    if theirs.status == ours.status >= 400 and theirs.status != 401:
        assert ours.body == b"" or isinstance(ours.body["error"], str), ours.body
        theirs.body, theirs.headers = ours.body, ours.headers


@because("HEAD is answered wherever GET is")
def heads(question, theirs, ours, past):
    methods = theirs.headers.get("access-control-allow-methods", [])
    if "GET" in methods and "HEAD" in ours.headers.get("access-control-allow-methods", []):
        methods.insert(methods.index("GET") + 1, "HEAD")


@because("subject and subject_fail are not in list and get answers")
def old_names(question, theirs, ours, past):
    for check in members(theirs.body, "subject_fail"):
        del check["subject"], check["subject_fail"]


def keep_flips(question, theirs, selected):
    if "/flips/" in question.path and theirs.status == 200:
        theirs.body["flips"] = [flip for flip in theirs.body["flips"] if (flip["timestamp"], flip["up"]) in selected]


@because("a flip is from up to down or from down to up; Healthchecks lists first pings, pauses and resumes as well")
def hidden_flips(question, theirs, ours, past):
    keep_flips(question, theirs, past.flips[question.about] | past.old_flips[question.about])


@because("flips older than two months and this one are not imported")
def old_flips(question, theirs, ours, past):
    keep_flips(question, theirs, past.flips[question.about])


@because("the flips of version 3 are an array")
def bare_flips(question, theirs, ours, past):
    if "/v3/" in question.path and "/flips/" in question.path and theirs.status == 200:
        theirs.body = theirs.body["flips"]


@because("seconds=0 selects no flips; Healthchecks ignores it")
def no_seconds(question, theirs, ours, past):
    if question.path.endswith("seconds=0") and theirs.status == 200:
        theirs.body = [] if isinstance(theirs.body, list) else {"flips": []}


@because("channels of kinds that no longer exist are not imported")
def gone_kinds(question, theirs, ours, past):
    for document in members(theirs.body, "channels"):
        if isinstance(document["channels"], str):
            document["channels"] = ",".join(channel for channel in document["channels"].split(",") if channel not in past.gone_channels)
        else:
            document["channels"] = [channel for channel in document["channels"] if channel["id"] not in past.gone_channels]


@because("the list of badges has URLs signed by overdue; the old ones are requested as well")
def signatures(question, theirs, ours, past):
    for answer in (theirs, ours):
        for document in members(answer.body, "badges"):
            for urls in document["badges"].values():
                for badge, url in urls.items():
                    project, states, form = re.fullmatch(r"(.*/badge/[^/]+)/[\w-]{8}(-2)?(?:/[^/]+)?\.(\w+)", url).groups()
                    urls[badge] = [project, states, form]


@because('the badge of a check without a name shows its slug or "unnamed", never the UUID by which it can be pinged')
def labels(question, theirs, ours, past):
    label = question.slug or "unnamed"
    if question.path.startswith("/b/") and isinstance(theirs.body, dict) and theirs.body.get("label") == question.about:
        theirs.body["label"] = label
    if question.path.startswith("/b/") and isinstance(theirs.body, bytes):
        theirs.body = theirs.body.replace(question.about.encode(), label.encode())


@because("badges are drawn differently, with long labels cut and white space as blanks; texts and colours are equal")
def drawing(question, theirs, ours, past):
    if theirs.headers.get("content-type") == ours.headers.get("content-type") == "image/svg+xml":
        for answer in (theirs, ours):
            texts = re.findall(r"<text[^>]*>([^<]+)</text>", answer.body.decode())
            colours = re.findall("#4c1|#fe7d37|#e05d44", answer.body.decode())
            answer.body = [sorted({" ".join(html.unescape(text).split())[:99] for text in texts}), sorted(set(colours))]


@because("methods other than those of pings in overdue, PATCH, DELETE and OPTIONS are not stored")
def methods(question, theirs, ours, past):
    for ping in members(theirs.body, "method"):
        if ping["method"] == "PROPFIND":
            ping["method"] = ""


@because("a time always has six decimal places; Healthchecks omits them if all are zero")
def whole_seconds(question, theirs, ours, past):
    for ping in members(theirs.body, "date"):
        ping["date"] = datetime.fromisoformat(ping["date"]).isoformat(timespec="microseconds")


@because(CUT)
def cut_times(question, theirs, ours, past):
    if past.is_cut:
        for ping in members(theirs.body, "date"):
            ping["date"] = ping["date"][:23] + "000" + ping["date"][26:]
        for their, own in zip(members(theirs.body, "duration"), members(ours.body, "duration")):
            if abs(their["duration"] - own["duration"]) < 0.011:
                their["duration"] = own["duration"]


@because("a start before the beginning of the log is unknown, and so is the duration of its end")
def unknown_starts(question, theirs, ours, past):
    if question.about == past.uuids["Short log"] and question.path.endswith("/pings/") and theirs.status == 200:
        del theirs.body["pings"][-1]["duration"]


@because("durations are shown even if the starts of more than ten ends are unknown; Healthchecks then omits all durations of the list")
def unknown_ends(question, theirs, ours, past):
    if question.about == past.uuids["Ends alone"] and question.path.endswith("/pings/") and theirs.status == 200:
        assert not list(members(theirs.body, "duration"))
        (end,) = members(ours.body, "duration")
        del end["duration"]


def compare(question, theirs, ours, past, used):
    """Returns lines about forbidden differences. Counts the uses of permitted ones in `used`."""
    theirs, ours = ComparedAnswer(theirs), ComparedAnswer(ours)
    for reason, rule in TABLE:
        before = str(vars(theirs)) + str(vars(ours))
        rule(question, theirs, ours, past)
        used[reason] += before != str(vars(theirs)) + str(vars(ours))
    lines = [] if theirs.status == ours.status else [f"status: {theirs.status} before, {ours.status} now"]
    return lines + list(unequal("header", theirs.headers, ours.headers)) + list(unequal("body", theirs.body, ours.body))


def unequal(place, theirs, ours):
    """Yields a line for each difference between two documents."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            if name not in ours or name not in theirs:
                yield f"{place}.{name}: " + (f"{theirs[name]!r} before, missing now" if name in theirs else f"missing before, {ours[name]!r} now")
            else:
                yield from unequal(f"{place}.{name}", theirs[name], ours[name])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours)):
            yield from unequal(f"{place}[{number}]", one, other)
    elif theirs != ours or type(theirs) is not type(ours):
        short = [repr(value)[:160] for value in (theirs, ours)]
        yield f"{place}: {short[0]} before, {short[1]} now"


def count(value):
    """Returns the number of values in a document."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if parts is None else sum(map(count, parts))
