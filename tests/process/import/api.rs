//! A project read through the API of a server that needs the same settings as alerts: TLS with a
//! private authority, and a proxy.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;

use crate::certificates::Authority;
use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

/// A proxy that forwards to one address and reports the requested one.
fn proxy(to: SocketAddr) -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, targets) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            // The receiver may be gone.
            let _ = tell.send(line.trim_end().to_owned());
            // Up to the end of the head, or of the connection.
            while line != "\r\n" && !line.is_empty() {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let target = TcpStream::connect(to).unwrap();
            (&stream).write_all(b"HTTP/1.1 200 yes\r\n\r\n").unwrap();
            let back = (target.try_clone().unwrap(), stream);
            std::thread::spawn(move || std::io::copy(&mut &back.0, &mut &back.1));
            std::thread::spawn(move || std::io::copy(&mut reader, &mut &target));
        }
    });
    (address, targets)
}

/// A server with a certificate for a name, and a file with a key of its project.
fn old_server(
    authority: &Authority,
    name: &str,
    directory: &Path,
) -> (ServerProcess, std::path::PathBuf) {
    let data = directory.join("old");
    admin(&data, &["project", "create", "Old"]);
    let key = admin(
        &data,
        &[
            "key",
            "create",
            "--project",
            "Old",
            "--access",
            "read-write",
        ],
    );
    let file = directory.join("key");
    std::fs::write(&file, key.lines().last().unwrap()).unwrap();
    admin(
        &data,
        &["check", "create", "--project", "Old", "--name", "Backup"],
    );
    let [chain, private] = authority.write(name, directory);
    let words = [
        "--tls-cert",
        chain.to_str().unwrap(),
        "--tls-key",
        private.to_str().unwrap(),
        "--api-rate",
        "0",
    ];
    (ServerProcess::start_with(&data, &words), file)
}

fn import(url: &str, key: &Path, words: &[&str]) -> ProcessOutput {
    let fixed = [
        "import",
        "healthchecks",
        "--dry-run",
        "--json",
        "--project",
        "Moved",
        "--api",
        url,
        "--key-file",
    ];
    run(overdue(&fixed).arg(key).args(words))
}

fn checks(done: &ProcessOutput) -> u64 {
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&done.out).unwrap();
    report["counts"]["checks"]["carried"].as_u64().unwrap()
}

#[test]
fn a_server_with_a_private_authority_is_trusted_if_the_authority_is_named() {
    let (directory, _) = temp_data_directory();
    let authority = Authority::new();
    let (server, key) = old_server(&authority, "127.0.0.1", directory.path());
    let ca = authority.file(&directory);
    let url = format!("https://{}", server.address);
    assert_eq!(
        checks(&import(&url, &key, &["--ca-file", ca.to_str().unwrap()])),
        1
    );
    let refused = import(&url, &key, &[]);
    assert!(
        refused.status == 2 && refused.err.contains("certificate"),
        "{}",
        refused.err
    );
    let missing = import(&url, &key, &["--ca-file", "/nowhere/ca.pem"]);
    assert!(
        missing.status == 2 && missing.err.contains("/nowhere/ca.pem"),
        "{}",
        missing.err
    );
    server.stop();
}

#[test]
fn a_server_behind_a_proxy_is_reached_through_it() {
    let (directory, _) = temp_data_directory();
    let authority = Authority::new();
    let (server, key) = old_server(&authority, "hc.test", directory.path());
    let (proxy, targets) = proxy(server.address);
    let ca = authority.file(&directory);
    let proxy = format!("http://{proxy}");
    let done = import(
        "https://hc.test",
        &key,
        &[
            "--ca-file",
            ca.to_str().unwrap(),
            "--outbound-proxy",
            &proxy,
        ],
    );
    assert_eq!(checks(&done), 1);
    let targets: Vec<_> = targets.try_iter().collect();
    assert!(
        !targets.is_empty()
            && targets
                .iter()
                .all(|line| line == "CONNECT hc.test:443 HTTP/1.1"),
        "{targets:?}"
    );
    let wrong = import("https://hc.test", &key, &["--outbound-proxy", "ftp://a"]);
    assert_eq!(
        (wrong.status, wrong.err.lines().count()),
        (2, 1),
        "{}",
        wrong.err
    );
    server.stop();
}
