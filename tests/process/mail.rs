//! SIGKILL while many clients send mail: every accepted message is stored as a ping, unchanged.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, temp_data_directory};

const ROUNDS: usize = 3;
const SENDERS: usize = 64;
/// Number of accepted messages in a round before the server is killed.
const ENOUGH: usize = 20 * SENDERS;

/// A session with the mail listener.
struct SmtpTestSession(BufReader<TcpStream>);

impl SmtpTestSession {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut session = Self(BufReader::new(stream));
        session.read_reply("220")?;
        session.say("HELO sender\r\n", &["250"])?;
        Ok(session)
    }

    /// Sends pipelined lines and reads a reply to each.
    fn say(&mut self, lines: &str, codes: &[&str]) -> io::Result<()> {
        self.0.get_mut().write_all(lines.as_bytes())?;
        codes.iter().try_for_each(|code| self.read_reply(code))
    }

    fn read_reply(&mut self, code: &str) -> io::Result<()> {
        let mut reply = String::new();
        self.0.read_line(&mut reply)?;
        assert!(
            reply.is_empty() || reply.starts_with(code),
            "{code} expected: {reply:?}"
        );
        if reply.ends_with("\r\n") {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn mail(&mut self, to: &str, message: &str) -> io::Result<()> {
        self.say(
            &format!("MAIL FROM:<a@b>\r\nRCPT TO:<{to}@d>\r\nDATA\r\n"),
            &["250", "250", "354"],
        )?;
        self.say(&format!("{message}.\r\n"), &["250"])
    }
}

fn message(number: usize) -> String {
    format!(
        "Subject: {number}\r\n\r\n{}",
        "text\r\n".repeat(number % 50)
    )
}

/// Returns the number of a message if it is complete.
fn number_in(body: &[u8]) -> Option<usize> {
    let number = std::str::from_utf8(body)
        .ok()?
        .strip_prefix("Subject: ")?
        .split_once('\r')?
        .0
        .parse()
        .ok()?;
    (body == message(number).as_bytes()).then_some(number)
}

fn serve(data: &Path) -> (ServerProcess, SocketAddr) {
    let words = [
        "--smtp-listen",
        "127.0.0.1:0",
        "--ping-email-domain",
        "d",
        "--api-rate",
        "0",
    ];
    let mut server = ServerProcess::start_with(data, &words);
    let line = server.wait_for("listening for mail");
    (
        server,
        line.split("address=").nth(1).unwrap().parse().unwrap(),
    )
}

#[test]
fn no_accepted_message_is_lost() {
    let (_directory, data) = temp_data_directory();
    admin(
        &data,
        &["project", "create", "main", "--ping-log-limit", "1000"],
    );
    let key = |access| {
        admin(
            &data,
            &["key", "create", "--project", "main", "--access", access],
        )
    };
    let ping_key = key("ping");
    let api_key = key("read-write");
    let mut accepted = vec![Vec::new(); SENDERS];
    let mut next = [0; SENDERS];
    for round in 0..ROUNDS {
        let (mut server, address) = serve(&data);
        if round == 0 {
            let mut client = HttpClient::connect(server.address).unwrap();
            for sender in 0..SENDERS {
                assert_eq!(
                    client
                        .post(&format!("/ping/{ping_key}/s{sender}?create=1"), &[])
                        .unwrap()
                        .status,
                    201
                );
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let count = Arc::clone(&count);
                let to = format!("{ping_key}+s{sender}");
                let mut number = next[sender];
                std::thread::spawn(move || {
                    let mut accepted = Vec::new();
                    if let Ok(mut session) = SmtpTestSession::open(address) {
                        while session.mail(&to, &message(number)).is_ok() {
                            count.fetch_add(1, Ordering::Relaxed);
                            accepted.push(number);
                            number += 1;
                        }
                    }
                    // The last message may be stored or not.
                    (accepted, number + 1)
                })
            })
            .collect();
        let give_up = Instant::now() + Duration::from_secs(60);
        while count.load(Ordering::Relaxed) < ENOUGH {
            assert!(
                Instant::now() < give_up,
                "only {count:?} messages were accepted"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        for (sender, thread) in senders.into_iter().enumerate() {
            let (numbers, following) = thread.join().unwrap();
            accepted[sender].extend(numbers);
            next[sender] = following;
        }
    }

    let (server, _) = serve(&data);
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut get = |path: &str| client.get(path, &api_key).unwrap().body;
    for (sender, accepted) in accepted.iter().enumerate() {
        let list: serde_json::Value =
            serde_json::from_slice(&get(&format!("/api/v3/checks/?slug=s{sender}"))).unwrap();
        let check = &list["checks"][0];
        let uuid = check["uuid"].as_str().unwrap();
        let pings = check["n_pings"].as_u64().unwrap();
        // The first ping created the check.
        let mut found = HashSet::new();
        for n in 2..=pings {
            let body = get(&format!("/api/v3/checks/{uuid}/pings/{n}/body"));
            let number = number_in(&body).unwrap_or_else(|| {
                panic!("ping {n} of sender {sender} differs from the message sent")
            });
            assert!(
                found.insert(number),
                "message {number} of sender {sender} is stored twice"
            );
        }
        assert!(
            accepted.iter().all(|number| found.contains(number)),
            "sender {sender}: {found:?} {accepted:?}"
        );
    }
    server.stop();
}

/// A message of 33 MB that repeats a line as often as it fits.
fn large(head: &str, line: &[u8]) -> Vec<u8> {
    let mut message = format!("Subject: large\r\n{head}\r\n").into_bytes();
    while message.len() < 33_000_000 {
        message.extend_from_slice(line);
    }
    message
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_for_the_largest_mails_is_limited() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let key = admin(
        &data,
        &["key", "create", "--project", "main", "--access", "ping"],
    );
    let (server, address) = serve(&data);
    let messages = [
        large("", &[[0xe9; 76].as_slice(), b"\r\n"].concat()),
        large(
            "Content-Type: text/html\r\n",
            b"<p>a line of a <b>report</b></p>\r\n",
        ),
        large(
            "Content-Transfer-Encoding: base64\r\n",
            format!("{}\r\n", "QUJDRCBFRkdI".repeat(6)).as_bytes(),
        ),
    ];
    let mut client = HttpClient::connect(server.address).unwrap();
    for number in 0..messages.len() {
        assert_eq!(
            client
                .get(&format!("/ping/{key}/s{number}?create=1"), "")
                .unwrap()
                .status,
            201
        );
    }
    // In the second round, the file already has bodies of that length.
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for (number, message) in messages.iter().enumerate() {
                let to = format!("MAIL FROM:<a@b>\r\nRCPT TO:<{key}+s{number}@d>\r\nDATA\r\n");
                scope.spawn(move || {
                    let mut session = SmtpTestSession::open(address).unwrap();
                    session.say(&to, &["250", "250", "354"]).unwrap();
                    session.0.get_mut().write_all(message).unwrap();
                    session.say(".\r\n", &["250"]).unwrap();
                });
            }
        });
    }
    let most = server.peak_memory();
    assert!(
        most < 300_000_000,
        "{most} bytes for three mails of 33 MB at the same time"
    );
    server.stop();
}
