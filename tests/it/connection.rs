//! Clients that treat a connection badly, and what others notice of it.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::support::server::{Server, answer};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_client_that_says_it_has_said_everything_is_answered() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let request = format!("GET /ping/{}/backup?create=1 HTTP/1.1\r\nHost: x\r\n\r\n", server.main.ping);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = answer(stream).await;
    assert_eq!((answer.status, answer.text()), (201, "Created"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_bodies_that_do_not_end_take_room_from_each_other_alone() {
    let server = Server::start().await;
    let long = format!("{{{}}}", " ".repeat(MIB - 2));
    let create = async |body: &str| server.send("POST", "/api/v3/checks/", &[], body.as_bytes()).await.status;
    let tried = async {
        let mut held = Vec::new();
        while create(&long).await != 503 {
            let mut stream = server.connect().await;
            let head = format!("POST /api/v3/checks/ HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), &long.as_bytes()[1..]].concat()).await.unwrap();
            held.push(stream);
        }
        assert!(held.len() > 60, "{} bodies were held", held.len());
        assert_eq!(create("{}").await, 401, "a short body needs no room");
        drop(held);
        while create(&long).await != 401 {}
    };
    tokio::time::timeout(Duration::from_secs(30), tried).await.unwrap();
    server.stop().await;
}
