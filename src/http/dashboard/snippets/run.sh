overdue run PING_URL -- /path/to/job
