# Formula of Homebrew, for macOS and Linux. `packaging/manifests.py` fills in the version, the address and the checksum.
class Overdue < Formula
  desc "Notifies people when a scheduled job did not report"
  homepage "@HOMEPAGE@"
  url "@DOWNLOADS@/overdue-@VERSION@.tar.gz"
  sha256 "@SOURCE_SUM@"
  license "MIT"

  depends_on "rust" => :build

  def install
    system "cargo", "install", "--bin", "overdue", *std_cargo_args
    system bin/"overdue", "man", man1
    generate_completions_from_executable(bin/"overdue", "completions")
  end

  service do
    run [opt_bin/"overdue", "serve", "--data", var/"overdue"]
    keep_alive true
    log_path var/"log/overdue.log"
    error_log_path var/"log/overdue.log"
  end

  test do
    system bin/"overdue", "project", "create", "home", "--data", testpath
    assert_match "home", shell_output("#{bin}/overdue project list --data #{testpath}")
  end
end
