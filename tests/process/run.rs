//! `overdue run` and `overdue ping`: the job runs as it would alone, whatever happens to it or to
//! the server, and pings are sent when they can be.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::certificates::{Authority, ServerCertificate};
use crate::receiver::{ReceivedRequest, Receiver, Reply, ResponseAction};
use crate::server_process::{ServerProcess, admin, overdue, run as outcome, temp_data_directory};

/// A server that records requests, with its runtime.
struct RecordingServer {
    runtime: tokio::runtime::Runtime,
    receiver: Receiver,
}

impl RecordingServer {
    fn start(acts: impl Into<Vec<ResponseAction>>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let receiver = runtime.block_on(Receiver::start(acts));
        Self { runtime, receiver }
    }

    fn url(&self) -> String {
        self.receiver.url("/ping/key/job?create=1")
    }

    /// Waits for `count` requests and returns them.
    fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        self.runtime.block_on(self.receiver.wait_for(count))
    }

    /// Returns the start and end pings of one run: the part after the path of its check, and the
    /// body of the end ping.
    fn run(&self) -> (String, Vec<u8>) {
        let requests = self.wait_for(2);
        assert_eq!(requests.len(), 2, "{requests:?}");
        let parse = |request: &ReceivedRequest| {
            let rest = request
                .target
                .strip_prefix("/ping/key/job/")
                .unwrap()
                .split_once("?create=1&rid=")
                .unwrap();
            (rest.0.to_owned(), rest.1.to_owned())
        };
        let start = parse(&requests[0]);
        let end = parse(&requests[1]);
        assert_eq!(
            (start.0.as_str(), requests[0].body.len(), start.1.len()),
            ("start", 0, 36)
        );
        assert_eq!(start.1, end.1, "the run id");
        (end.0, requests[1].body.clone())
    }
}

fn ok() -> Vec<ResponseAction> {
    vec![ResponseAction::status(200)]
}

/// Restores default signal handling. Scripts ignore some signals in background jobs, and so may
/// these tests.
const DEFAULT_SIGNALS: &str = "--default-signal";

/// Part of a script that waits for a signal for a limited time.
const WAIT: &str = "n=0; while [ $n -lt 1200 ]; do sleep 0.05; n=$((n + 1)); done";

/// `overdue run URL WORDS -- sh -c SCRIPT`, without a controlling terminal.
fn run_command(url: &str, words: &[&str], script: &str) -> Command {
    let plain = overdue(&[&["run", url], words, &["--", "sh", "-c", script]].concat());
    let mut command = Command::new("setsid");
    command
        .args(["env", DEFAULT_SIGNALS])
        .arg(plain.get_program())
        .args(plain.get_args());
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    command
}

/// True if the process has ended, even if it is still a zombie.
fn is_gone(pid: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
            Ok(stat) if !stat.contains(") Z ") => std::thread::sleep(Duration::from_millis(20)),
            _ => return true,
        }
    }
    false
}

#[test]
fn a_run_reports_the_exit_status_and_output_of_its_job() {
    let recorder = RecordingServer::start(ok());
    let done = outcome(&mut run_command(
        &recorder.url(),
        &[],
        "echo out; echo err >&2; exit 3",
    ));
    assert_eq!(
        (done.status, done.out.as_str(), done.err.as_str()),
        (3, "out\n", "err\n")
    );
    let (status, body) = recorder.run();
    assert_eq!(status, "3");
    // The two streams are separate here, so their order is unknown.
    assert!(
        [&b"out\nerr\n"[..], b"err\nout\n"].contains(&&body[..]),
        "{body:?}"
    );
}

#[test]
fn the_client_alone_runs_jobs_and_sends_pings() {
    let client = || Command::new(env!("CARGO_BIN_EXE_overdue-run"));
    let recorder = RecordingServer::start(ok());
    let job = ["run", &recorder.url(), "--", "sh", "-c", "echo out; exit 3"];
    let done = outcome(client().args(job));
    assert_eq!(
        (done.status, done.out.as_str()),
        (3, "out\n"),
        "{}",
        done.err
    );
    let (status, body) = recorder.run();
    assert_eq!((status.as_str(), &body[..]), ("3", &b"out\n"[..]));
    let ping = outcome(client().args(["ping", &recorder.url(), "--action", "fail"]));
    assert_eq!(ping.status, 0, "{}", ping.err);
    let wrong = outcome(client().args(["run", "http://127.0.0.1:1/x", "--sleep", "1"]));
    assert_eq!(wrong.status, 2);
    assert!(
        wrong.err.contains("write -- before the command of the job"),
        "{}",
        wrong.err
    );
}

#[test]
fn streams_that_end_in_one_place_keep_their_order() {
    let recorder = RecordingServer::start(ok());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done";
    let status = run_command(&recorder.url(), &[], script)
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .status()
        .unwrap();
    assert!(status.success());
    let mut out = String::new();
    reader.read_to_string(&mut out).unwrap();
    let expected: String = (1..10)
        .map(|number| format!("o{number}\ne{number}\n"))
        .collect();
    assert_eq!(
        (out.as_bytes(), recorder.run()),
        (
            expected.as_bytes(),
            ("0".into(), expected.clone().into_bytes())
        )
    );
}

#[test]
fn our_own_server_accepts_the_pings_of_a_run() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let uuid = admin(
        &data,
        &["check", "create", "--project", "default", "--name", "job"],
    );
    let url = format!("http://localhost:{}/ping/{uuid}", server.address.port());
    let command = |words: &[&str]| {
        outcome(
            overdue(words)
                .env("OVERDUE_PING_URL", &url)
                .env("PATH", "/usr/bin:/bin"),
        )
    };
    assert_eq!(
        command(&["run", "--no-output", "--", "echo", "secret"]).out,
        "secret\n"
    );
    assert_eq!(command(&["ping", "--action", "fail"]).status, 0);
    let pings: serde_json::Value =
        serde_json::from_str(&admin(&data, &["check", "pings", &uuid, "--json"])).unwrap();
    let kinds: Vec<_> = pings
        .as_array()
        .unwrap()
        .iter()
        .map(|ping| ping["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["fail", "success", "start"], "{pings}");
    let key = admin(
        &data,
        &["key", "create", "--project", "default", "--access", "ping"],
    );
    let done = outcome(&mut run_command(
        &format!("http://{}/ping/{key}/nightly", server.address),
        &[],
        "true",
    ));
    let said = "the answer was 404: not found; no check has the slug \"nightly\": create it, \
                add ?create=1 to the URL";
    assert!(
        done.status == 0 && done.err.contains(said) && !done.err.contains(&key),
        "{}",
        done.err
    );
    server.stop();
}

#[test]
fn a_job_that_dies_by_a_signal_is_a_failure() {
    let recorder = RecordingServer::start(ok());
    let done = outcome(&mut run_command(
        &recorder.url(),
        &[],
        "printf half; kill -KILL $$",
    ));
    assert_eq!(
        (done.status, done.out.as_str(), done.err.as_str()),
        (137, "half", "overdue: the job was ended by signal 9\n")
    );
    assert_eq!(
        recorder.run(),
        (
            "137".into(),
            b"half\noverdue: the job was ended by signal 9\n".to_vec()
        )
    );
}

#[test]
fn a_job_over_its_time_limit_is_ended_with_all_its_processes() {
    let recorder = RecordingServer::start(ok());
    let done = outcome(&mut run_command(
        &recorder.url(),
        &["--timeout", "1", "--kill-after", "1"],
        "trap '' TERM; sleep 99 & echo $!; sleep 99; sleep 99",
    ));
    assert_eq!(
        (done.status, done.err.as_str()),
        (137, "overdue: the job was ended after 1 s\n")
    );
    assert!(is_gone(&done.out), "{}", done.out);
    assert_eq!(recorder.run().0, "137");
    // A job that exits with 0 only after a termination signal has still failed.
    let recorder = RecordingServer::start(ok());
    let done = outcome(&mut run_command(
        &recorder.url(),
        &["--timeout", "1"],
        "trap 'kill $!; exit 0' TERM; sleep 99 & wait",
    ));
    assert_eq!((done.status, recorder.run().0.as_str()), (124, "124"));
}

#[test]
fn signals_reach_the_job() {
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("USR1", 10)] {
        let recorder = RecordingServer::start(ok());
        let script = format!("trap 'exit $((100 + {number}))' {name}; echo ready; {WAIT}");
        let mut child = run_command(&recorder.url(), &[], &script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", child.id()))
            .status()
            .unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(100 + number), "{name}");
        assert_eq!(recorder.run().0, (100 + number).to_string());
    }
}

#[test]
fn the_end_of_a_job_is_reported_after_the_signal_that_ended_it() {
    let recorder = RecordingServer::start(ok());
    // The signal arrives after the job has ended while its output is still open. `^C`, which
    // reaches both, may do so.
    let done = outcome(&mut run_command(
        &recorder.url(),
        &[],
        "(sleep 0.1; kill -TERM $PPID; sleep 0.1) & exit 3",
    ));
    assert_eq!((done.status, recorder.run().0.as_str()), (3, "3"));
}

#[test]
fn ignored_signals_stay_ignored_in_the_job() {
    let recorder = RecordingServer::start(ok());
    let plain = run_command(&recorder.url(), &[], "kill -HUP $$; echo lives");
    let words = plain.get_args().filter(|word| *word != DEFAULT_SIGNALS);
    let words: Vec<_> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let done = outcome(
        Command::new("sh")
            .arg("-c")
            .arg(format!("trap '' HUP; setsid {}", words.join(" "))),
    );
    assert_eq!(
        (done.status, done.out.as_str()),
        (0, "lives\n"),
        "{}",
        done.err
    );
}

#[test]
fn a_job_has_the_terminal_as_it_would_alone() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let recorder = RecordingServer::start(ok());
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || File::options().read(true).write(true).open(&name).unwrap();
    // The job traps the signal and reads the terminal, which only a foreground process may do.
    let script = format!("trap 'echo caught; exit 9' INT; read line; echo read $line; {WAIT}");
    let plain = run_command(&recorder.url(), &[], &script);
    let mut child = Command::new("setsid")
        .arg("--ctty")
        .args(plain.get_args())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .spawn()
        .unwrap();
    let mut master = File::from(master);
    master.write_all(b"hello\n").unwrap();
    let mut lines = BufReader::new(master.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line.contains("read hello")));
    master.write_all(b"\x03").unwrap();
    assert!(lines.any(|line| line.contains("caught")));
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let (status, body) = recorder.run();
    assert_eq!(
        (status.as_str(), String::from_utf8(body).unwrap().as_str()),
        ("9", "read hello\ncaught\n")
    );
}

#[test]
fn a_flood_of_output_needs_little_memory() {
    let recorder = RecordingServer::start(ok());
    // Memory of the program that runs the job, in kB.
    let script =
        "head -c 1000000000 /dev/zero; printf '\\377end'; grep VmHWM /proc/$PPID/status >&2";
    let done = outcome(
        run_command(&recorder.url(), &[], script).stdout(File::create("/dev/null").unwrap()),
    );
    let most: u64 = done.err.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(done.status == 0 && most < 60_000, "{}", done.err);
    let (_, body) = recorder.run();
    assert_eq!(body.len(), 100_000);
    // The output is sent unchanged, text or not.
    assert!(body.windows(4).any(|bytes| bytes == b"\xffend"));
}

#[test]
fn the_end_of_the_output_is_cut_to_what_the_server_stores() {
    let limit = Reply {
        status: 200,
        headers: vec![("Ping-Body-Limit", "10".into())],
        ..Reply::default()
    };
    let recorder = RecordingServer::start([ResponseAction::Answer(limit)]);
    // The job runs long enough for the answer to its start ping.
    outcome(&mut run_command(
        &recorder.url(),
        &[],
        "sleep 1; echo a long story and its end",
    ));
    assert_eq!(recorder.run(), ("0".into(), b"d its end\n".to_vec()));
}

#[test]
fn a_job_whose_reader_is_gone_gets_the_broken_pipe() {
    let recorder = RecordingServer::start(ok());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(
        run_command(&recorder.url(), &[], "exec yes")
            .stdout(writer)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .code(),
        Some(141)
    );
}

#[test]
fn processes_that_a_job_leaves_running_are_not_waited_for() {
    let recorder = RecordingServer::start(ok());
    let begun = Instant::now();
    let mut child = run_command(&recorder.url(), &[], "sleep 20 & echo $!")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut pid)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill {}", pid.trim()))
        .status();
}

#[test]
fn a_job_that_cannot_be_started_is_reported_too() {
    let recorder = RecordingServer::start(ok());
    let done = outcome(
        overdue(&["run", &recorder.url(), "--", "/no/such/program"]).env("PATH", "/usr/bin:/bin"),
    );
    assert_eq!(
        (
            done.status,
            done.err.contains("/no/such/program cannot be started")
        ),
        (127, true),
        "{}",
        done.err
    );
    assert_eq!(recorder.run().0, "127");
    for words in [
        &["run", "--", "true"][..],
        &["run", "nonsense", "--", "true"],
        &["run", "http://127.0.0.1:9/u"],
    ] {
        assert_eq!(outcome(&mut overdue(words)).status, 2, "{words:?}");
    }
}

#[test]
fn a_server_that_hangs_delays_a_job_only_briefly() {
    let recorder = RecordingServer::start([ResponseAction::Silence]);
    let begun = Instant::now();
    let done = outcome(&mut run_command(
        &recorder.url(),
        &["--deliver-within", "1"],
        "exit 4",
    ));
    assert_eq!(
        (done.status, done.err.as_str()),
        (
            4,
            "overdue: the server did not accept the ping: no answer within 1 s\n"
        )
    );
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    // The command does not wait for the answer.
    let begun = Instant::now();
    let mut child = run_command(&recorder.url(), &["--deliver-within", "600"], "echo ended")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut String::new())
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        Command::new("sh")
            .arg("-c")
            .arg(format!("kill {}", child.id()))
            .status()
            .unwrap()
            .success()
    );
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_ping_to_a_busy_server_is_retried() {
    let recorder = RecordingServer::start([
        ResponseAction::status(503),
        ResponseAction::Reset,
        ResponseAction::status(429),
        ResponseAction::status(200),
    ]);
    assert_eq!(outcome(&mut overdue(&["ping", &recorder.url()])).status, 0);
    assert_eq!(recorder.wait_for(4).len(), 4);
    // A permanent refusal is not retried.
    let recorder = RecordingServer::start([ResponseAction::status(404)]);
    let done = outcome(&mut overdue(&["ping", &recorder.url()]));
    assert_eq!(done.status, 1);
    assert!(
        done.err.starts_with(
            "overdue: the server did not accept the ping: the answer was 404; no \
                              check has the slug \"job\""
        ),
        "{}",
        done.err
    );
    assert_eq!(recorder.wait_for(1).len(), 1);
}

#[test]
fn an_untrusted_certificate_is_not_retried() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (directory, _) = temp_data_directory();
    let spool = directory.path().join("spool");
    let shown = Authority::new().issue("localhost");
    for (number, with_spool) in [false, true].into_iter().enumerate() {
        let (port, connections) = runtime.block_on(refused_certificate(&shown));
        let url = format!("https://localhost:{port}/ping/key/job");
        let mut words = vec!["--deliver-within", "600"];
        if with_spool {
            words.extend(["--spool", spool.to_str().unwrap()]);
        }
        let begun = Instant::now();
        let done = outcome(&mut overdue(&[&["ping", &url][..], &words].concat()));
        let why = "the certificate of localhost is not signed by a trusted authority";
        assert!(done.err.contains(why), "{}", done.err);
        assert_eq!(
            (done.status, connections.load(Ordering::SeqCst)),
            (i32::from(!with_spool), 1),
            "{}",
            done.err
        );
        // The exit status is that of the job. Each ping is retried at most once.
        let done = outcome(&mut run_command(&url, &words, "exit 3"));
        assert!(done.status == 3 && done.err.contains(why), "{}", done.err);
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(
            if with_spool { spooled_count(&spool) } else { 0 },
            2 * number
        );
    }
}

/// A server with an untrusted certificate. Returns the number of its connections.
async fn refused_certificate(shown: &ServerCertificate) -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let acceptor = shown.acceptor.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = acceptor.accept(stream).await;
        }
    });
    (port, connections)
}

fn spooled_count(spool: &Path) -> usize {
    let files = std::fs::read_dir(spool)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "ping")
        })
        .count()
}

#[test]
fn the_next_run_sends_the_pings_that_failed() {
    let (directory, data) = temp_data_directory();
    let spool = directory.path().join("spool");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    admin(&data, &["project", "create", "main"]);
    let uuid = admin(
        &data,
        &["check", "create", "--project", "main", "--name", "job"],
    );
    let url = format!("http://127.0.0.1:{port}/ping/{uuid}");
    let words = ["--spool", spool.to_str().unwrap(), "--deliver-within", "1"];
    for status in [5, 0] {
        let done = outcome(&mut run_command(&url, &words, &format!("exit {status}")));
        assert_eq!(
            (
                done.status,
                done.err.contains("the next run sends it again")
            ),
            (status, true),
            "{}",
            done.err
        );
    }
    // A single ping is spooled too, which is no failure.
    let done = outcome(
        overdue(&["ping", &url, "--action", "log", "--body-file", "-"])
            .args(words)
            .stdin(File::open("/dev/null").unwrap()),
    );
    assert_eq!((done.status, spooled_count(&spool)), (0, 3), "{}", done.err);

    let listen = format!("127.0.0.1:{port}");
    let server = ServerProcess::spawn(
        overdue(&["serve", "--listen", &listen])
            .arg("--data")
            .arg(&data),
    );
    assert_eq!(outcome(&mut run_command(&url, &words, "exit 0")).status, 0);
    assert_eq!(spooled_count(&spool), 0);
    let pings: serde_json::Value =
        serde_json::from_str(&admin(&data, &["check", "pings", &uuid, "--json"])).unwrap();
    let kinds: Vec<_> = pings
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|ping| ping["type"].as_str().unwrap())
        .collect();
    // Start pings that failed are not resent: they would give a wrong duration.
    assert_eq!(kinds, ["start", "fail", "success", "log", "success"]);
    server.stop();
}

#[test]
fn concurrent_runs_share_a_spool_and_send_everything_once() {
    let (directory, _) = temp_data_directory();
    let spool = directory.path().join("spool");
    let words = ["--spool", spool.to_str().unwrap(), "--deliver-within", "20"];
    let flags = ["--spool", spool.to_str().unwrap(), "--deliver-within", "1"];
    let at_once = |command: &dyn Fn(usize) -> Command| {
        let mut children: Vec<_> = (0..8)
            .map(|number| command(number).stderr(Stdio::null()).spawn().unwrap())
            .collect();
        children
            .iter_mut()
            .for_each(|child| assert!(child.wait().unwrap().success()));
    };
    let recorder = RecordingServer::start([ResponseAction::status(200)]);
    at_once(&|number| {
        let url = recorder
            .receiver
            .url(&format!("/ping/away/{number}"))
            .replace(&recorder.receiver.address.to_string(), "127.0.0.1:9");
        overdue(&[&["ping", &url][..], &flags].concat())
    });
    // The spooled pings get the port of the running server.
    for entry in std::fs::read_dir(&spool).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(
            path,
            text.replace("127.0.0.1:9", &recorder.receiver.address.to_string()),
        )
        .unwrap();
    }
    assert_eq!(spooled_count(&spool), 8);
    at_once(&|number| {
        overdue(
            &[
                &[
                    "ping",
                    &recorder.receiver.url(&format!("/ping/there/{number}")),
                ][..],
                &words,
            ]
            .concat(),
        )
    });
    assert_eq!(spooled_count(&spool), 0);
    let mut targets: Vec<_> = recorder
        .wait_for(16)
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    // Pings that waited longer arrived first.
    assert!(
        targets[..8].iter().all(|target| target.contains("away")),
        "{targets:?}"
    );
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), 16, "{targets:?}");
}
