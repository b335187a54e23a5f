//! A supervisor holds the sockets while the server is replaced: connections wait, and no ping is
//! refused or lost.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

const SENDERS: usize = 64;
const UPGRADES: usize = 4;

/// A server started as systemd starts it: the sockets are descriptors from 3 on, and the
/// environment names them.
pub fn activated(
    data: &Path,
    http: &TcpListener,
    mail: Option<&TcpListener>,
    words: &str,
) -> Command {
    let socket = |listener: &TcpListener| Stdio::from(OwnedFd::from(listener.try_clone().unwrap()));
    let (count, names, second) = if mail.is_some() {
        (2, "http:smtp", "4<&1")
    } else {
        (1, "http", "")
    };
    let plain = overdue(&[]);
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} exec \"$0\" serve {words} 3<&0 \
         {second} 0</dev/null 1>&2"
    );
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(script)
        .arg(plain.get_program())
        .env_clear()
        .env("OVERDUE_DATA", data)
        .stdin(socket(http));
    if let Some(mail) = mail {
        command.stdout(socket(mail));
    }
    command
}

#[test]
fn no_ping_is_refused_or_lost_while_the_server_is_replaced() {
    let (_directory, data) = temp_data_directory();
    admin(
        &data,
        &["project", "create", "main", "--ping-log-limit", "1000000"],
    );
    let uuid = admin(
        &data,
        &["check", "create", "--project", "main", "--name", "job"],
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    // The senders may start before a server runs.
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let ends = Arc::clone(&ends);
            let path = format!("/ping/{uuid}");
            std::thread::spawn(move || {
                let mut sent = 0;
                while !ends.load(Ordering::Relaxed) {
                    // Without retries: any error fails the test.
                    let mut client = HttpClient::connect(address).unwrap();
                    let answer = client
                        .post(&path, b"")
                        .unwrap_or_else(|error| panic!("ping {sent} got no answer: {error}"));
                    assert_eq!(answer.status, 200);
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    let mut server = ServerProcess::spawn(&mut activated(&data, &listener, None, ""));
    for _ in 0..UPGRADES {
        std::thread::sleep(Duration::from_millis(300));
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0), "{}", server.log.join("\n"));
        server = ServerProcess::spawn(&mut activated(&data, &listener, None, ""));
        assert_eq!(server.address, address);
    }
    ends.store(true, Ordering::Relaxed);
    let sent: usize = senders
        .into_iter()
        .map(|sender| sender.join().expect("every ping is answered"))
        .sum();
    let shown: serde_json::Value =
        serde_json::from_str(&admin(&data, &["check", "show", &uuid, "--json"])).unwrap();
    assert!(sent > SENDERS * UPGRADES, "{sent}");
    assert_eq!(shown["n_pings"], sent, "{shown}");
    server.stop();
}

#[test]
fn sockets_are_identified_by_their_names() {
    let (_directory, data) = temp_data_directory();
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let mail = TcpListener::bind("127.0.0.1:0").unwrap();
    let words = "--ping-email-domain ping.example.org --listen 127.0.0.1:0 --listen 127.0.0.1:8000";
    let mut server = ServerProcess::spawn(&mut activated(&data, &http, Some(&mail), words));
    assert_eq!(server.address, http.local_addr().unwrap());
    // Addresses of the flag are used too, except for its default.
    let more: SocketAddr = server
        .wait_for("listening for HTTP")
        .split("address=")
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert_ne!(more.port(), 8000);
    for address in [server.address, more] {
        assert_eq!(
            HttpClient::connect(address)
                .unwrap()
                .get("/healthz", "")
                .unwrap()
                .status,
            200
        );
    }
    let mut greeting = String::new();
    BufReader::new(TcpStream::connect(mail.local_addr().unwrap()).unwrap())
        .read_line(&mut greeting)
        .unwrap();
    assert!(greeting.starts_with("220 "), "{greeting}");
    server.stop();
}

#[test]
fn mail_needs_an_address_from_a_flag_or_a_socket() {
    let (_directory, data) = temp_data_directory();
    let done = crate::server_process::run(
        overdue(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--ping-email-domain",
            "a.example.org",
        ])
        .arg("--data")
        .arg(&data),
    );
    assert_eq!(
        (
            done.status,
            done.err
                .contains("give --smtp-listen, or enable overdue-smtp.socket")
        ),
        (1, true),
        "{}",
        done.err
    );
}

#[test]
fn an_address_in_use_by_the_socket_is_explained() {
    let (_directory, data) = temp_data_directory();
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let words = format!("--listen 0.0.0.0:{}", http.local_addr().unwrap().port());
    let done = run(&mut activated(&data, &http, None, &words));
    let output = done.out + &done.err;
    assert!(
        done.status == 1
            && output.contains("overdue.socket holds 127.0.0.1:")
            && output.contains("systemctl edit overdue.socket"),
        "{output}"
    );
    assert!(!data.join("overdue.redb").exists());
}
