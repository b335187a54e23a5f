url=PING_URL
curl -fsS -m 10 --retry 3 -o /dev/null "$url/start"
out=$(/path/to/job 2>&1); status=$?
printf %s "$out" | tail -c 100000 |
  curl -fsS -m 10 --retry 3 -o /dev/null --data-binary @- "$url/$status"
