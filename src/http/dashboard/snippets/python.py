import urllib.request

def report(what="", text=""):
    for attempt in range(4):
        try:
            urllib.request.urlopen("PING_URL" + what, text.encode(), timeout=10).close()
            return
        except OSError as error:
            print("report:", error)

report("/start")
try:
    job()
    report()
except Exception as error:
    report("/fail", repr(error))
    raise
