use tokio::io::{DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::engine;
use crate::smtp::Config;
use crate::smtp::address::Domain;
use crate::smtp::budget::{MESSAGE_BUDGET, MessageBudget};
use crate::store::Medium;

const TO_DATA: &str = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@d>\r\nDATA\r\n";

/// A conversation over a pipe that holds `capacity` bytes, and what tells it to stop.
struct Talk {
    peer: DuplexStream,
    session: JoinHandle<io::Result<()>>,
    stop: watch::Sender<bool>,
    budget: MessageBudget,
}

fn talk(capacity: usize, budget: usize) -> Talk {
    let (handle, writer) = engine::open(engine::Config::new(Medium::memory(), 0)).unwrap();
    std::thread::spawn(move || writer.run());
    let (stop, stopping) = watch::channel(false);
    let config = Config { domain: Domain::parse("d").unwrap(), certificate: None };
    let budget = MessageBudget::new(budget);
    let door = Arc::new(Door { handle, config, sessions: Arc::new(Semaphore::new(1)), budget: budget.clone(), readers: Semaphore::new(1) });
    let dialogue = Dialogue::new(door.config.domain.clone(), Tls::None);
    let mut session = Session { dialogue, peer: IpAddr::from([127, 0, 0, 1]), door, stop: stopping, taken: None };
    let (peer, mut stream) = duplex(capacity);
    let session = tokio::spawn(async move { session.converse(&mut stream).await.map(drop) });
    Talk { peer, session, stop, budget }
}

impl Talk {
    async fn send(&mut self, text: &str) {
        self.peer.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next replies, up to one that begins with `code`.
    async fn hear(&mut self, code: &str) -> String {
        let mut heard = Vec::new();
        loop {
            let line = heard.len();
            while !heard.ends_with(b"\n") || heard.len() == line {
                heard.push(self.peer.read_u8().await.unwrap());
            }
            if heard[line..].starts_with(code.as_bytes()) {
                return String::from_utf8(heard).unwrap();
            }
        }
    }

    /// What is said until the end.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.peer.read_to_string(&mut rest).await.unwrap();
        rest
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn silent_peers_are_dropped() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    assert!(timeout(PATIENCE - SECOND, talk.peer.read_u8()).await.is_err());
    assert_eq!(timeout(2 * SECOND, talk.rest()).await.unwrap(), "421 4.4.2 Too slow\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_command_cannot_be_drawn_out() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    for _ in 0..7 {
        talk.send("N").await;
        sleep(PATIENCE / 7 - SECOND / 10).await;
    }
    assert_eq!(timeout(SECOND, talk.rest()).await.unwrap(), "421 4.4.2 Too slow\r\n");
}

#[tokio::test(start_paused = true)]
async fn sessions_end_some_time() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    for _ in 0..(SESSION.as_secs() / 50 - 1) {
        sleep(50 * SECOND).await;
        talk.send("NOOP\r\n").await;
        talk.hear("250").await;
    }
    sleep(49 * SECOND).await;
    talk.send("NOOP\r\n").await;
    talk.hear("250").await;
    assert_eq!(timeout(2 * SECOND, talk.rest()).await.unwrap(), "421 4.4.2 Too slow\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_message_may_take_its_time_but_not_stop() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    talk.send(TO_DATA).await;
    talk.hear("354").await;
    for _ in 0..10 {
        sleep(PATIENCE - SECOND).await;
        talk.send("line\r\n").await;
    }
    assert!(timeout(PATIENCE - SECOND, talk.peer.read_u8()).await.is_err());
    assert_eq!(timeout(2 * SECOND, talk.rest()).await.unwrap(), "421 4.4.2 Too slow\r\n");
}

#[tokio::test(start_paused = true)]
async fn replies_have_to_be_read() {
    let mut talk = talk(64, MESSAGE_BUDGET);
    talk.send(&"NOOP\r\n".repeat(10)).await;
    assert!(timeout(HANDOVER - SECOND, &mut talk.session).await.is_err());
    let ended = timeout(2 * SECOND, &mut talk.session).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn stopping_ends_sessions_between_messages() {
    let mut idle = talk(1024, MESSAGE_BUDGET);
    idle.send("NOOP\r\n").await;
    idle.hear("250").await;
    idle.stop.send_replace(true);
    assert_eq!(idle.rest().await, "421 4.3.2 The service is stopping\r\n");

    let mut busy = talk(1024, MESSAGE_BUDGET);
    busy.send(TO_DATA).await;
    busy.hear("354").await;
    busy.stop.send_replace(true);
    busy.send("hi\r\n").await;
    busy.send(".\r\n").await;
    assert_eq!(busy.rest().await, "250 2.0.0 OK\r\n421 4.3.2 The service is stopping\r\n");
}

/// So many bytes of a message, in lines.
fn content(bytes: usize) -> String {
    ("x".repeat(1022) + "\r\n").repeat(bytes / 1024)
}

/// DATA of a message that is declared to have so many bytes; 0: nothing is declared.
fn to_data(declared: usize) -> String {
    TO_DATA.replace(":<>", &if declared > 0 { format!(":<> SIZE={declared}") } else { ":<>".to_owned() })
}

const MEGABYTE: usize = BUDGET_STEP;

#[tokio::test]
async fn large_messages_take_budget_and_give_it_back() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    for (declared, sent, taken) in [
        (0, SHARE, 0),
        (MEGABYTE, SHARE, 0),
        (0, 2 * SHARE, MESSAGE_MAX),
        (2 * SHARE, 2 * SHARE, MEGABYTE),
        (2 * MEGABYTE, 2 * MEGABYTE, 2 * MEGABYTE),
        // More than was declared.
        (SHARE, 2 * MEGABYTE, MESSAGE_MAX),
    ] {
        talk.send(&to_data(declared)).await;
        talk.hear("354").await;
        talk.send(&content(sent)).await;
        assert_eq!(talk.budget.left(), MESSAGE_BUDGET - taken, "{declared} {sent}");
        talk.send(".\r\n").await;
        talk.hear("250").await;
        assert_eq!(talk.budget.left(), MESSAGE_BUDGET, "{declared} {sent}");
    }
    talk.send(TO_DATA).await;
    talk.hear("354").await;
    talk.send(&content(2 * SHARE)).await;
    drop(talk.peer);
    talk.session.await.unwrap().unwrap();
    assert_eq!(talk.budget.left(), MESSAGE_BUDGET);
}

#[tokio::test]
async fn large_messages_wait_for_budget() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    let taken = talk.budget.try_take(MESSAGE_BUDGET).unwrap();
    talk.send(TO_DATA).await;
    talk.hear("354").await;
    let Talk { mut peer, session, stop: _stop, .. } = talk;
    let sending = tokio::spawn(async move {
        peer.write_all(content(4 * SHARE).as_bytes()).await.unwrap();
        peer.write_all(b".\r\nQUIT\r\n").await.unwrap();
        let mut heard = String::new();
        peer.read_to_string(&mut heard).await.unwrap();
        heard
    });
    // As often as it takes to fill the pipe, and more.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert!(!sending.is_finished());
    drop(taken);
    assert_eq!(sending.await.unwrap(), "250 2.0.0 OK\r\n221 2.0.0 Bye\r\n");
    session.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn large_messages_without_budget_are_refused_for_now() {
    let mut talk = talk(1024, MESSAGE_BUDGET);
    for (left, declared) in [(0, 0), (MESSAGE_MAX - MEGABYTE, 0), (MEGABYTE, SHARE)] {
        let _taken = talk.budget.try_take(MESSAGE_BUDGET - left).unwrap();
        talk.send(&to_data(declared)).await;
        talk.hear("354").await;
        talk.send(&content(2 * MEGABYTE)).await;
        assert_eq!(talk.budget.left(), left);
        talk.send(".\r\n").await;
        assert_eq!(talk.hear("452").await.lines().count(), 1);
    }
}
