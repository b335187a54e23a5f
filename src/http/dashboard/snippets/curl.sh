curl -fsS -m 10 --retry 3 -o /dev/null PING_URL
