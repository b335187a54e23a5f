use tokio::io::{DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use uuid::Uuid;

use super::*;
use crate::domain::check_edit::CheckEdit;
use crate::domain::ids::ProjectId;
use crate::domain::project::ProjectName;
use crate::engine::command::{CheckUuids, Command, CreateCheckRequest, NewProject};
use crate::engine::{self, Handle};
use crate::smtp::SmtpConfig;
use crate::smtp::address::MailDomain;
use crate::smtp::message_budget::{MESSAGE_BUDGET_BYTES, MessageBudget};
use crate::store::Medium;
use crate::util::keyed_semaphore::KeyedSemaphore;

const TO_DATA: &str =
    "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@d>\r\nDATA\r\n";
/// UUID of the check that the mail is for.
const UUID: Uuid = Uuid::from_u128(0x6f3a_0f6e_0c9b_4f0e_9b1b_0a1b_2c3d_4e5f);

/// A connection over a pipe that holds `capacity` bytes, with its stop signal.
struct TestConnection {
    peer: DuplexStream,
    session: JoinHandle<io::Result<()>>,
    stop: watch::Sender<bool>,
    handle: Handle,
    budget: MessageBudget,
}

fn talk(capacity: usize, budget: usize) -> TestConnection {
    let (handle, mut writer) =
        engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
    let project = NewProject {
        uuid: Uuid::nil(),
        name: ProjectName::parse("main").unwrap(),
        check_limit: None,
        ping_log_limit: 10,
        badge_key: "".into(),
    };
    let names = CheckUuids {
        uuid: UUID,
        badge: Uuid::nil(),
    };
    let check = CreateCheckRequest {
        project: ProjectId(1),
        edit: CheckEdit::default(),
        unique: Vec::new(),
        uuids: names,
    };
    for command in [
        Command::CreateProject(Box::new(project)),
        Command::CreateCheck(Box::new(check)),
    ] {
        drop(handle.submit(command));
    }
    writer.step(false).unwrap();
    std::thread::spawn(move || writer.run());
    let (stop, stopping) = watch::channel(false);
    let config = SmtpConfig {
        domain: MailDomain::parse("d").unwrap(),
        certificate: None,
    };
    let budget = MessageBudget::new(budget);
    let blocking = Arc::new(crate::runtime::blocking_threads::BlockingThreads::start(1).unwrap());
    let server = Arc::new(SmtpServerState {
        blocking,
        handle: handle.clone(),
        config,
        sessions: KeyedSemaphore::per_key(1),
        message_budget: budget.clone(),
        parse_permits: Semaphore::new(1),
    });
    let dialogue = Dialogue::new(server.config.domain.clone(), TlsState::None);
    let mut session = SmtpSession {
        dialogue,
        peer: IpAddr::from([127, 0, 0, 1]),
        server,
        stop: stopping,
        budget_permit: None,
        is_slow: false,
    };
    let (peer, mut stream) = duplex(capacity);
    let session = tokio::spawn(async move { session.run_dialogue(&mut stream).await.map(drop) });
    TestConnection {
        peer,
        session,
        stop,
        handle,
        budget,
    }
}

impl TestConnection {
    async fn send(&mut self, text: &str) {
        self.peer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns the next replies, up to one that begins with `code`.
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

    /// Returns the replies until the end.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.peer.read_to_string(&mut rest).await.unwrap();
        rest
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn silent_peers_are_dropped() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    assert!(
        timeout(MESSAGE_TIMEOUT - SECOND, talk.peer.read_u8())
            .await
            .is_err()
    );
    assert_eq!(
        timeout(2 * SECOND, talk.rest()).await.unwrap(),
        "421 4.4.2 Too slow\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn slow_commands_end_a_session() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    for _ in 0..7 {
        talk.send("N").await;
        sleep(MESSAGE_TIMEOUT / 7 - SECOND / 10).await;
    }
    assert_eq!(
        timeout(SECOND, talk.rest()).await.unwrap(),
        "421 4.4.2 Too slow\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn commands_alone_do_not_keep_a_session_open() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    for command in [
        "HELO x\r\n",
        "MAIL FROM:<>\r\n",
        "RSET\r\n",
        "MAIL FROM:<>\r\n",
        "NOOP\r\n",
    ] {
        talk.send(command).await;
        talk.hear("250").await;
        sleep(MESSAGE_TIMEOUT / 5 - SECOND / 10).await;
    }
    assert_eq!(
        timeout(SECOND, talk.rest()).await.unwrap(),
        "421 4.4.2 Too slow\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_have_a_maximum_duration() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    talk.begin().await;
    for _ in 0..SESSION_TIMEOUT.as_secs() / 50 - 1 {
        sleep(50 * SECOND).await;
        talk.send("line\r\n").await;
    }
    sleep(49 * SECOND).await;
    assert_eq!(
        timeout(2 * SECOND, talk.rest()).await.unwrap(),
        "421 4.4.2 Too slow\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_may_be_slow_but_not_stop() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    talk.send(TO_DATA).await;
    talk.hear("354").await;
    for _ in 0..10 {
        sleep(MESSAGE_TIMEOUT - SECOND).await;
        talk.send("line\r\n").await;
    }
    assert!(
        timeout(MESSAGE_TIMEOUT - SECOND, talk.peer.read_u8())
            .await
            .is_err()
    );
    assert_eq!(
        timeout(2 * SECOND, talk.rest()).await.unwrap(),
        "421 4.4.2 Too slow\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn clients_must_read_their_replies() {
    let mut talk = talk(64, MESSAGE_BUDGET_BYTES);
    talk.send(&"NOOP\r\n".repeat(10)).await;
    assert!(
        timeout(SEND_TIMEOUT - SECOND, &mut talk.session)
            .await
            .is_err()
    );
    let ended = timeout(2 * SECOND, &mut talk.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn stopping_ends_sessions_between_messages() {
    let mut idle = talk(1024, MESSAGE_BUDGET_BYTES);
    idle.send("NOOP\r\n").await;
    idle.hear("250").await;
    idle.stop.send_replace(true);
    assert_eq!(idle.rest().await, "421 4.3.2 The service is stopping\r\n");

    let mut busy = talk(1024, MESSAGE_BUDGET_BYTES);
    busy.send(TO_DATA).await;
    busy.hear("354").await;
    busy.stop.send_replace(true);
    busy.send("hi\r\n").await;
    busy.send(".\r\n").await;
    assert_eq!(
        busy.rest().await,
        "250 2.0.0 OK\r\n421 4.3.2 The service is stopping\r\n"
    );
}

/// Returns message content of this number of bytes, in lines.
fn content(bytes: usize) -> String {
    ("x".repeat(1022) + "\r\n").repeat(bytes / 1024)
}

const MEGABYTE: usize = BUDGET_STEP_BYTES;

impl TestConnection {
    async fn begin(&mut self) {
        self.send(TO_DATA).await;
        self.hear("354").await;
    }

    /// Ends the message, which is accepted, and returns the bytes of the first check's ping that
    /// were stored.
    async fn end(&mut self) -> usize {
        self.send(".\r\n").await;
        self.hear("250").await;
        let check = self
            .handle
            .with_state(|state| state.check_by_uuid(UUID).cloned().unwrap());
        self.handle.pings(&check).unwrap()[0].body_len as usize
    }
}

#[tokio::test]
async fn large_messages_take_budget_as_they_arrive_and_return_it() {
    let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
    for (declared, pieces) in [
        (
            "",
            [
                (UNBUDGETED_BYTES, 0),
                (UNBUDGETED_BYTES, MEGABYTE),
                (MEGABYTE, 2 * MEGABYTE),
            ],
        ),
        // A declared size takes nothing of the budget.
        (
            " SIZE=33554432",
            [
                (UNBUDGETED_BYTES, 0),
                (4096, MEGABYTE),
                (2 * MEGABYTE, 3 * MEGABYTE),
            ],
        ),
    ] {
        talk.send(&TO_DATA.replace(":<>", &format!(":<>{declared}")))
            .await;
        talk.hear("354").await;
        for (bytes, taken) in pieces {
            talk.send(&content(bytes)).await;
            assert_eq!(
                talk.budget.free_bytes(),
                MESSAGE_BUDGET_BYTES - taken,
                "{declared} {bytes}"
            );
        }
        assert_eq!(
            talk.end().await,
            pieces.iter().map(|(bytes, _)| bytes).sum::<usize>()
        );
        assert_eq!(talk.budget.free_bytes(), MESSAGE_BUDGET_BYTES);
    }
    talk.begin().await;
    talk.send(&content(2 * UNBUDGETED_BYTES)).await;
    drop(talk.peer);
    talk.session.await.unwrap().unwrap();
    assert_eq!(talk.budget.free_bytes(), MESSAGE_BUDGET_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_memory_and_is_truncated_without() {
    for (freed_after, stored) in [(9, MEGABYTE), (11, UNBUDGETED_BYTES)] {
        let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
        let taken = talk.budget.acquire(MESSAGE_BUDGET_BYTES, 0).await;
        let freed = tokio::spawn(async move {
            sleep(freed_after * SECOND).await;
            drop(taken);
        });
        talk.begin().await;
        talk.send(&content(MEGABYTE)).await;
        assert_eq!(talk.end().await, stored, "{freed_after} s");
        freed.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn slow_senders_lose_their_memory_first_and_only_to_others() {
    for (per_second, loses) in [(2, false), (0, true)] {
        let mut talk = talk(1024, MESSAGE_BUDGET_BYTES);
        let others = talk
            .budget
            .acquire(MESSAGE_BUDGET_BYTES - MEGABYTE, 0)
            .await;
        talk.begin().await;
        talk.send(&content(MEGABYTE - 64 * 1024)).await;
        for _ in 0..30 {
            sleep(SECOND).await;
            talk.send(&content(per_second * 1024)).await;
        }
        assert_eq!(
            talk.budget.free_bytes(),
            0,
            "no other message has needed it yet"
        );
        let other = talk.budget.acquire(MEGABYTE, 0).await;
        assert_eq!(other.is_some(), loses);
        let sent = MEGABYTE - 64 * 1024 + 30 * per_second * 1024;
        assert_eq!(
            talk.end().await,
            if loses { UNBUDGETED_BYTES } else { sent }
        );
        drop(others);
    }
}
