//! Pings by mail over real sockets: from the first byte of a session to the log of the check.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overdue::domain::check::Check;
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::CheckId;
use overdue::domain::ping::PingKind;
use overdue::domain::status::Status;
use overdue::domain::text::{Keywords, Name, Slug};
use overdue::engine::command::CommandOutcome;
use overdue::runtime::certificate::Certificate;
use overdue::smtp::address::MailDomain;
use overdue::smtp::{self, MAX_SESSIONS, MAX_SESSIONS_PER_ADDRESS, SmtpConfig};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use uuid::Uuid;

use crate::support::commands::create_check;
use crate::support::server::{TestServer, blocking_threads};

const DOMAIN: &str = "ping.example.org";

/// A server with a listener for mail.
struct SmtpFixture {
    server: TestServer,
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    door: JoinHandle<()>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/smtp")
        .join(name)
}

async fn service(certificate: Option<Certificate>) -> SmtpFixture {
    let server = TestServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let config = SmtpConfig {
        domain: MailDomain::parse(DOMAIN).unwrap(),
        certificate,
    };
    let door = tokio::spawn(
        smtp::SmtpServer::new(server.handle.clone(), blocking_threads(), config)
            .serve(listener, stopped),
    );
    SmtpFixture {
        server,
        addr,
        stop,
        door,
    }
}

impl SmtpFixture {
    /// Creates a check whose UUID is made from a number.
    async fn check(&self, number: u128, edit: CheckEdit) -> CheckId {
        match self
            .server
            .handle
            .call(create_check(self.server.main.id, number, edit))
            .await
        {
            Ok(Ok(CommandOutcome::CheckCreated(check))) => check.id,
            other => panic!("{other:?}"),
        }
    }

    fn now(&self, check: CheckId) -> Check {
        self.server
            .handle
            .with_state(|state| state.check(check).unwrap().clone())
    }

    /// Kinds of the pings of a check, oldest first.
    fn kinds(&self, check: CheckId) -> Vec<PingKind> {
        self.server
            .handle
            .pings(&self.now(check))
            .unwrap()
            .iter()
            .rev()
            .map(|ping| ping.kind)
            .collect()
    }

    async fn sender(&self) -> SmtpClient<TcpStream> {
        let mut sender = SmtpClient(BufReader::new(TcpStream::connect(self.addr).await.unwrap()));
        sender.read_reply("220").await;
        sender
    }

    async fn end(self) {
        self.stop.send_replace(true);
        self.door.await.unwrap();
        self.server.stop().await;
    }
}

fn address(number: u128) -> String {
    format!("{}@{DOMAIN}", Uuid::from_u128(number))
}

/// Client side of a session.
struct SmtpClient<S>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> SmtpClient<S> {
    /// Reads the next reply with all its lines. It must have this code.
    async fn read_reply(&mut self, code: &str) -> String {
        let mut reply = String::new();
        loop {
            let from = reply.len();
            self.0.read_line(&mut reply).await.unwrap();
            if reply.as_bytes()[from..].get(3) != Some(&b'-') {
                assert!(reply.starts_with(code), "{code} expected, {reply:?} heard");
                return reply;
            }
        }
    }

    async fn say(&mut self, text: &str, code: &str) -> String {
        self.0.write_all(text.as_bytes()).await.unwrap();
        self.read_reply(code).await
    }

    /// Sends a message in one pipelined write, and reads the reply.
    async fn mail(&mut self, from: &str, to: &[&str], message: &[u8], code: &str) {
        self.0
            .write_all(format!("EHLO test\r\nMAIL FROM:<{from}>\r\n").as_bytes())
            .await
            .unwrap();
        for to in to {
            self.0
                .write_all(format!("RCPT TO:<{to}>\r\n").as_bytes())
                .await
                .unwrap();
        }
        self.0.write_all(b"DATA\r\n").await.unwrap();
        for _ in 0..to.len() + 2 {
            self.read_reply("250").await;
        }
        self.read_reply("354").await;
        self.0.write_all(message).await.unwrap();
        self.0.write_all(b"\r\n.\r\n").await.unwrap();
        self.read_reply(code).await;
    }
}

#[tokio::test]
async fn every_recipient_gets_a_ping() {
    let service = service(None).await;
    let slug = |slug| CheckEdit {
        slug: Some(Slug::parse(slug).unwrap()),
        ..CheckEdit::default()
    };
    let one = service.check(1, CheckEdit::default()).await;
    let two = service.check(2, slug("nightly")).await;
    let twins = [
        service.check(3, slug("twin")).await,
        service.check(4, slug("twin")).await,
    ];
    let by_slug = |slug| format!("{}+{slug}@{DOMAIN}", service.server.main.ping_key);
    let message = "From: nas@example.org\r\nSubject: done\r\n\r\nAll fine.\r\n".to_owned()
        + &"long ".repeat(100);
    let mut sender = service.sender().await;
    // A recipient that names no check, or several, is accepted and dropped like the rest.
    let recipients = [
        address(1)
            .to_uppercase()
            .replace(&DOMAIN.to_uppercase(), DOMAIN),
        by_slug("nightly"),
        by_slug("twin"),
        by_slug("none"),
        address(99),
    ];
    sender
        .mail(
            "nas@example.org",
            &recipients.each_ref().map(String::as_str),
            message.as_bytes(),
            "250",
        )
        .await;
    sender.mail("", &[&address(1)], b"x", "250").await;
    sender
        .mail(
            &format!("{}@example.org", "ž".repeat(20) + &"x".repeat(190)),
            &[&address(1)],
            b"x",
            "250",
        )
        .await;
    for (check, pings) in [(one, 3), (two, 1), (twins[0], 0), (twins[1], 0)] {
        let pinged = service.now(check);
        assert_eq!(pinged.state.n_pings, pings);
        assert_eq!(
            pinged.state.status,
            if pings > 0 { Status::Up } else { Status::New }
        );
    }
    let logged = service
        .server
        .handle
        .pings(&service.now(two))
        .unwrap()
        .remove(0);
    assert_eq!(
        (
            logged.kind,
            logged.origin.scheme.name(),
            logged.origin.method.name()
        ),
        (PingKind::Success, "email", "")
    );
    assert_eq!(
        (
            &*logged.origin.user_agent,
            logged.origin.remote_addr,
            logged.rid
        ),
        (
            "Email from nas@example.org",
            Some([127, 0, 0, 1].into()),
            None
        )
    );
    // The whole message is stored, regardless of the limit for HTTP bodies.
    assert_eq!(
        service
            .server
            .handle
            .body(&service.now(two), 1)
            .unwrap()
            .unwrap(),
        (message + "\r\n").as_bytes()
    );
    let uas: Vec<_> = service
        .server
        .handle
        .pings(&service.now(one))
        .unwrap()
        .into_iter()
        .map(|ping| ping.origin.user_agent)
        .collect();
    assert_eq!(&*uas[1], "Email from <>");
    assert_eq!(uas[0].chars().count(), 200);
    service.end().await;
}

#[tokio::test]
async fn a_mail_is_one_ping_of_each_check_however_often_it_names_it() {
    let service = service(None).await;
    let check = service
        .check(
            1,
            CheckEdit {
                slug: Some(Slug::parse("nightly").unwrap()),
                ..CheckEdit::default()
            },
        )
        .await;
    let uuid = address(0xabcdef);
    let by_slug = format!("{}+nightly@{DOMAIN}", service.server.main.ping_key);
    let other = service.check(0xabcdef, CheckEdit::default()).await;
    let recipients = [
        address(1),
        address(1),
        uuid.to_uppercase(),
        uuid,
        by_slug.clone(),
        by_slug,
    ];
    let mut sender = service.sender().await;
    sender
        .mail(
            "a@b",
            &recipients.each_ref().map(String::as_str),
            b"hello",
            "250",
        )
        .await;
    assert_eq!(
        (
            service.now(check).state.n_pings,
            service.now(other).state.n_pings
        ),
        (1, 1)
    );
    service.end().await;
}

#[tokio::test]
async fn the_keyword_search_in_a_long_mail_delays_no_other_client() {
    let service = service(None).await;
    let list = |letter: char| {
        ('a'..='z')
            .chain('A'..='Z')
            .map(|second| format!("{letter}{second}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    for number in 1..=5 {
        let edit = CheckEdit {
            filter_subject: Some(true),
            filter_body: Some(true),
            failure_kw: Some(Keywords::parse(&list('f')).unwrap()),
            success_kw: Some(Keywords::parse(&list('s')).unwrap()),
            start_kw: Some(Keywords::parse(&list('t')).unwrap()),
            // A keyword list of its own, so that no search serves two checks.
            name: Some(Name::parse(&number.to_string()).unwrap()),
            ..CheckEdit::default()
        };
        service.check(number, edit).await;
    }
    service.check(9, CheckEdit::default()).await;
    let recipients: Vec<_> = (1..=5).map(address).collect();
    let mut sender = service.sender().await;
    let message = b"f1 s1 t1 f2 s2 t2\r\n".repeat(550_000);
    let mailing = tokio::spawn(async move {
        let recipients: Vec<_> = recipients.iter().map(String::as_str).collect();
        sender.mail("a@b", &recipients, &message, "250").await;
    });
    let mut slowest = Duration::ZERO;
    while !mailing.is_finished() {
        #[allow(
            clippy::disallowed_methods,
            reason = "how long it takes is what is asked"
        )]
        let begin = Instant::now();
        assert_eq!(
            service
                .server
                .get(&format!("/ping/{}", Uuid::from_u128(9)))
                .await
                .status,
            200
        );
        slowest = slowest.max(begin.elapsed());
    }
    mailing.await.unwrap();
    assert!(
        slowest < Duration::from_secs(3),
        "a ping beside the mail took {slowest:?}"
    );
    service.end().await;
}

#[tokio::test]
async fn keywords_decide_if_filters_are_on() {
    let service = service(None).await;
    let keywords = |filter_subject, filter_body| CheckEdit {
        filter_subject: Some(filter_subject),
        filter_body: Some(filter_body),
        filter_http_body: Some(true),
        success_kw: Some(Keywords::parse("OK").unwrap()),
        failure_kw: Some(Keywords::parse("BROKEN").unwrap()),
        start_kw: Some(Keywords::parse("BEGUN").unwrap()),
        ..CheckEdit::default()
    };
    let mut checks = Vec::new();
    for (number, filters) in [
        (1, (false, false)),
        (2, (true, false)),
        (3, (false, true)),
        (4, (true, true)),
    ] {
        checks.push(service.check(number, keywords(filters.0, filters.1)).await);
    }
    let mut sender = service.sender().await;
    let recipients: Vec<_> = (1..=4).map(address).collect();
    let recipients: Vec<_> = recipients.iter().map(String::as_str).collect();
    for message in [
        "Subject: OK\r\n\r\nBROKEN",
        "Subject: =?utf-8?B?QlJPS0VO?=\r\nContent-Transfer-Encoding: base64\r\n\r\nT0s=",
        "Subject: hello\r\nContent-Type: text/html\r\n\r\n<p>BRO<b>KEN</b></p>",
        "Subject: BEGUN\r\n\r\nhello",
        "Subject: hello\r\n\r\nhello",
    ] {
        sender
            .mail("a@b", &recipients, message.as_bytes(), "250")
            .await;
    }
    use PingKind::{Fail, Ignored, Start, Success};
    for (check, kinds) in checks.iter().zip([
        [Success, Success, Success, Success, Success],
        [Success, Fail, Ignored, Start, Ignored],
        [Fail, Success, Fail, Ignored, Ignored],
        [Fail, Fail, Fail, Start, Ignored],
    ]) {
        assert_eq!(service.kinds(*check), kinds);
    }
    service.end().await;
}

#[tokio::test]
async fn hostile_messages_are_pings_like_any_other() {
    let service = service(None).await;
    let check = service
        .check(
            1,
            CheckEdit {
                filter_body: Some(true),
                ..CheckEdit::default()
            },
        )
        .await;
    let mut sender = service.sender().await;
    let nested_parts: String = (0..50_000)
        .map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n"))
        .collect();
    let mut messages = 0;
    for message in [
        b"".to_vec(),
        b"\0\0\0\xff\xfe\x80".to_vec(),
        b"Subject: a\n.\nMAIL FROM:<x@y>\r\nRCPT TO:<x@y>\r\nDATA\n.\r\nx\r.\r\n".to_vec(),
        format!("Subject: {}\r\n\r\n", "x".repeat(3_000_000)).into_bytes(),
        "X-Header: y\r\n".repeat(300_000).into_bytes(),
        "Content-Type: message/rfc822\r\n\r\n"
            .repeat(100_000)
            .into_bytes(),
        nested_parts.into_bytes(),
        format!(
            "Content-Type: text/html\r\n\r\n{}",
            "<b><!-- ".repeat(200_000)
        )
        .into_bytes(),
        b"Content-Type: text/plain; charset=utf-16\r\n\
          Content-Transfer-Encoding: base64\r\n\r\n====!!!!\xff"
            .to_vec(),
        vec![b'x'; 10_000_000],
    ] {
        sender.mail("a@b", &[&address(1)], &message, "250").await;
        messages += 1;
        let body = service
            .server
            .handle
            .body(&service.now(check), messages)
            .unwrap()
            .unwrap();
        assert!(body == [message, b"\r\n".to_vec()].concat(), "{messages}");
    }
    assert_eq!(service.now(check).state.n_pings, messages);
    service.end().await;
}

#[tokio::test]
async fn tls_protects_the_rest_of_the_session() {
    let certificate =
        Certificate::read(&fixture("server.pem"), &fixture("server.key"), &[]).unwrap();
    let service = service(Some(certificate)).await;
    let check = service.check(1, CheckEdit::default()).await;
    let mut sender = service.sender().await;
    assert!(
        sender
            .say("EHLO x\r\n", "250")
            .await
            .contains("250-STARTTLS\r\n")
    );
    sender.say("STARTTLS\r\n", "220").await;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap())
        .unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(DOMAIN).unwrap();
    let encrypted = TlsConnector::from(Arc::new(config))
        .connect(name, sender.0.into_inner())
        .await
        .unwrap();
    let mut sender = SmtpClient(BufReader::new(encrypted));
    sender.say("MAIL FROM:<>\r\n", "503").await;
    assert!(!sender.say("EHLO x\r\n", "250").await.contains("STARTTLS"));
    sender.mail("a@b", &[&address(1)], b"secret", "250").await;
    sender.say("QUIT\r\n", "221").await;
    assert_eq!(service.now(check).state.n_pings, 1);

    // An aborted handshake does not affect other sessions; the plain connection still works.
    let mut other = service.sender().await;
    other.say("STARTTLS\r\n", "220").await;
    other.0.write_all(b"EHLO x\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = other.0.read_to_end(&mut rest).await;
    service
        .sender()
        .await
        .mail("a@b", &[&address(1)], b"clear", "250")
        .await;
    assert_eq!(service.now(check).state.n_pings, 2);
    service.end().await;
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let chain = fixture("server.pem");
    let key = fixture("server.key");
    assert!(Certificate::read(&chain, &key, &[]).is_ok());
    for (chain, key, expected) in [
        (&fixture("none.pem"), &key, "cannot read the certificate"),
        (&key, &key, "there is no CERTIFICATE section in it"),
        (&chain, &chain, "cannot read the private key"),
        (&fixture("ca.pem"), &key, "cannot use the private key"),
    ] {
        let error = Certificate::read(chain, key, &[])
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains(expected) && error.contains("tests/it/smtp/"),
            "{error}"
        );
    }
}

/// Connects from an address of the loopback network.
async fn from(address: [u8; 4], service: &SmtpFixture) -> SmtpClient<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    SmtpClient(BufReader::new(socket.connect(service.addr).await.unwrap()))
}

#[tokio::test]
async fn sessions_over_the_limit_get_an_error() {
    let service = service(None).await;
    let mut senders = Vec::new();
    for network in 1..=(MAX_SESSIONS / MAX_SESSIONS_PER_ADDRESS) as u8 {
        for _ in 0..MAX_SESSIONS_PER_ADDRESS {
            let mut sender = from([127, 0, 0, network], &service).await;
            sender.read_reply("220").await;
            senders.push(sender);
        }
        assert!(
            from([127, 0, 0, network], &service)
                .await
                .read_reply("421")
                .await
                .contains("from your address")
        );
    }
    assert!(
        !from([127, 0, 0, 99], &service)
            .await
            .read_reply("421")
            .await
            .contains("from your address")
    );
    senders.pop().unwrap().say("QUIT\r\n", "221").await;
    // The slot is free once the session has ended, just after its last reply.
    loop {
        let mut greeting = String::new();
        from([127, 0, 0, 99], &service)
            .await
            .0
            .read_line(&mut greeting)
            .await
            .unwrap();
        if greeting.starts_with("220") {
            break;
        }
    }
    drop(senders);
    service.end().await;
}

#[tokio::test]
async fn a_mail_that_cannot_be_stored_is_not_accepted() {
    let service = service(None).await;
    service.check(1, CheckEdit::default()).await;
    let mut sender = service.sender().await;
    service.server.handle.close();
    sender.mail("a@b", &[&address(1)], b"x", "451").await;
    sender.say("QUIT\r\n", "221").await;
    service.end().await;
}
