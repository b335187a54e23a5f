//! A separate address for metrics, and a token.

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, overdue, run, temp_data_directory};

#[test]
fn an_address_for_metrics_serves_nothing_else() {
    let (directory, data) = temp_data_directory();
    let token = directory.path().join("token");
    std::fs::write(&token, "the token of the owner\n").unwrap();
    let words = [
        "--metrics-listen",
        "127.0.0.1:0",
        "--metrics-token-file",
        token.to_str().unwrap(),
    ];
    let mut server = ServerProcess::start_with(&data, &words);
    let line = server.wait_for("listening for metrics");
    let address = line.split("address=").nth(1).unwrap().parse().unwrap();
    let mut client = HttpClient::connect(address).unwrap();
    let answer = client.get("/metrics", "").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.status, 200);
    for part in [
        "overdue_build_info{version=\"",
        "\noverdue_writable 1\n",
        "\noverdue_projects 1\n",
        "\nprocess_start_time_seconds ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    #[cfg(target_os = "linux")]
    for part in [
        "\nprocess_cpu_seconds_total ",
        "\nprocess_resident_memory_bytes ",
        "\nprocess_open_fds ",
        "\nprocess_max_fds ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for path in ["/", "/healthz", "/api/v3/checks/"] {
        assert_eq!(client.get(path, "").unwrap().status, 404, "{path}");
    }
    let mut main = HttpClient::connect(server.address).unwrap();
    assert_eq!(main.get("/metrics", "").unwrap().status, 401);
    let head =
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token of the owner\r\n\r\n";
    main.send(head).unwrap();
    assert_eq!(main.receive().unwrap().status, 200);
    server.stop();
    let none = run(
        overdue(&["serve", "--metrics-token-file", "/nowhere/token"])
            .arg("--data")
            .arg(&data),
    );
    assert_eq!(
        (none.status, none.err.contains("/nowhere/token")),
        (2, true),
        "{}",
        none.err
    );
}
