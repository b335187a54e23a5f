Invoke-RestMethod -TimeoutSec 10 -MaximumRetryCount 3 -RetryIntervalSec 2 "PING_URL/$LASTEXITCODE" | Out-Null
