require "net/http"

def report(what = "", text = "")
  uri = URI("PING_URL#{what}")
  options = { use_ssl: uri.scheme == "https", open_timeout: 10, read_timeout: 10 }
  4.times do
    Net::HTTP.start(uri.hostname, uri.port, **options) { |http| http.post(uri.path, text) }
    return
  rescue StandardError => error
    warn "report: #{error.message}"
  end
end

report("/start")
begin
  job
  report
rescue StandardError => error
  report("/fail", error.message)
  raise
end
