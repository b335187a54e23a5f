//! Clients that treat a connection badly, and what others notice of it.

use tokio::io::AsyncWriteExt as _;

use crate::server::{Server, answer};

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
