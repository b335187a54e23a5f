//! A server with a certificate: its startup messages, and SIGHUP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, DEFAULT_VERSIONS, StreamOwned};

use crate::certificates::{Authority, put};
use crate::server_process::{ServerProcess, overdue, run, temp_data_directory};

/// Sends a health request over TLS, with a certificate of this authority.
fn health(server: &ServerProcess, authority: &Authority) -> std::io::Result<String> {
    let stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(authority.client(DEFAULT_VERSIONS)), name).unwrap();
    let mut stream = StreamOwned::new(client, stream);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_renewed_certificate_needs_no_restart() {
    let (directory, data) = temp_data_directory();
    let [old, new] = [Authority::new(), Authority::new()];
    let [chain, key] = old.write("localhost", directory.path());
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let words = [
        "--tls-cert",
        chain.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let mut server = ServerProcess::start_with(&data, &words);
    assert!(
        server
            .log
            .iter()
            .any(|line| line.contains("every user of this machine can access the private key")),
        "{:?}",
        server.log
    );
    assert!(
        server
            .log
            .iter()
            .any(|line| line.contains("base_url=\"https://127.0.0.1:")),
        "{:?}",
        server.log
    );
    assert!(health(&server, &old).unwrap().ends_with("OK"));
    let at = server.address.to_string();
    assert_eq!(
        run(&mut overdue(&["health", "--listen", &at])).status,
        0,
        "`overdue health` connects without TLS"
    );

    new.write("localhost", directory.path());
    server.signal("HUP");
    server.wait_for("new connections use the new certificate in");
    assert!(health(&server, &new).unwrap().ends_with("OK"));
    assert!(health(&server, &old).is_err());

    put(&chain, "nothing");
    server.signal("HUP");
    server.wait_for("the previous certificate stays in use: cannot read the certificate");
    assert!(health(&server, &new).unwrap().ends_with("OK"));
    server.stop();
}

#[test]
fn both_files_are_needed_and_must_belong_together() {
    let (directory, data) = temp_data_directory();
    let one = directory.path().join("one");
    let other = directory.path().join("other");
    let [chain, _] = [&one, &other].map(|place| {
        std::fs::create_dir(place).unwrap();
        Authority::new().write("localhost", place)
    })[0]
        .clone();
    let foreign = other.join("server.key");
    for (words, status, expected) in [
        (
            &["--tls-cert", chain.to_str().unwrap()][..],
            2,
            "--tls-key <FILE>",
        ),
        (
            &[
                "--tls-cert",
                chain.to_str().unwrap(),
                "--tls-key",
                foreign.to_str().unwrap(),
            ],
            1,
            "cannot use the private key",
        ),
        (
            &[
                "--tls-cert",
                "/nowhere/a.pem",
                "--tls-key",
                "/nowhere/a.key",
            ],
            1,
            "cannot read the certificate /nowhere/a.pem: No such file",
        ),
    ] {
        let done = run(overdue(&["serve", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(&data)
            .args(words));
        assert_eq!(
            (
                done.status,
                done.err.lines().count(),
                done.err.contains(expected)
            ),
            (status, 1, true),
            "{}",
            done.err
        );
    }
    assert!(
        !data.join("overdue.redb").exists(),
        "a failed start creates nothing"
    );
}
