//! Mail: TLS, login, replies, and the connection that is kept.

use std::time::Duration;

use overdue::outbound::{
    MailError, MailFrom, MailReceipt, MailRelay, MailServer, MailStep, Outbound, OutboundConfig,
    OutgoingMail, SendStage,
};

use super::{config, outbound, with_clock, words};
use crate::support::certificates::Authority;
use crate::support::mail_server::{MailScript, RecordingMailServer};
use crate::support::server::START;

fn mail() -> OutgoingMail {
    OutgoingMail {
        to: vec!["ann@example.org".into()],
        subject: "DOWN | Nightly backup".into(),
        text: "It is down.\r\n.\r\nQUIT\r\n".into(),
        html: None,
        id: "1-2-3".into(),
        in_reply_to: None,
        date: START,
        headers: Vec::new(),
        attachment: None,
        timeout: Duration::from_secs(10),
    }
}

fn relay(url: &str, password: Option<std::path::PathBuf>) -> OutboundConfig {
    let from = MailFrom::parse("overdue <alerts@example.net>").unwrap();
    OutboundConfig {
        relay: Some(MailRelay::new(MailServer::parse(url).unwrap(), password, from).unwrap()),
        ..config()
    }
}

fn plain(server: &RecordingMailServer) -> OutboundConfig {
    relay(&format!("smtp+plain://{}", server.address), None)
}

async fn send(outbound: &Outbound) -> Result<MailReceipt, MailError> {
    outbound.send_mail(mail()).await
}

fn replies(replies: &[(&'static str, &'static str)]) -> MailScript {
    MailScript {
        replies: replies
            .iter()
            .map(|(start, reply)| (*start, *reply, usize::MAX))
            .collect(),
        ..MailScript::default()
    }
}

#[tokio::test]
async fn a_mail_arrives_and_its_connection_is_kept() {
    let server = RecordingMailServer::start(MailScript::default()).await;
    let (outbound, clock) = with_clock(plain(&server));
    assert_eq!(
        send(&outbound).await,
        Ok(MailReceipt {
            refused: Vec::new()
        })
    );
    send(&outbound).await.unwrap();
    let lines = server.received_lines();
    let expected = [
        "(connection)",
        "EHLO [127.0.0.1]",
        "MAIL FROM:<alerts@example.net>",
        "RCPT TO:<ann@example.org>",
        "DATA",
    ];
    assert_eq!(lines[..5], expected);
    // A line with a single dot does not end the message, and the text after it is no command.
    let body = lines.iter().position(|line| line == "It is down.").unwrap();
    assert_eq!(lines[body + 1..body + 3], ["..", "QUIT"]);
    assert_eq!(
        (
            server.count("(connection)"),
            server.count("EHLO"),
            server.count("Subject: DOWN | Nightly backup")
        ),
        (1, 1, 2)
    );
    clock.advance_secs(11);
    send(&outbound).await.unwrap();
    assert_eq!(server.count("(connection)"), 2);
}

#[tokio::test]
async fn the_number_of_messages_on_a_connection_is_limited() {
    let server = RecordingMailServer::start(MailScript::default()).await;
    let outbound = outbound(plain(&server));
    for _ in 0..101 {
        send(&outbound).await.unwrap();
    }
    assert_eq!(
        (server.count("(connection)"), server.count("DATA")),
        (2, 101)
    );
}

#[tokio::test]
async fn a_kept_mail_connection_that_is_gone_is_replaced() {
    for reply in ["", "421 too long idle"] {
        let script = MailScript {
            replies: vec![("MAIL", "250 fine", 1), ("MAIL", reply, 1)],
            ..MailScript::default()
        };
        let server = RecordingMailServer::start(script).await;
        let outbound = outbound(plain(&server));
        send(&outbound).await.unwrap();
        send(&outbound).await.unwrap();
        assert_eq!((server.count("(connection)"), server.count("DATA")), (2, 2));
    }
}

#[tokio::test]
async fn errors_contain_the_reply_and_its_step() {
    for (start, reply, step, code) in [
        ("(greeting)", "554 go away", MailStep::Greeting, 554),
        ("EHLO", "502 what?", MailStep::Greeting, 502),
        ("MAIL", "451 later", MailStep::Sender, 451),
        ("RCPT", "550 5.1.1 no such user", MailStep::Recipient, 550),
        ("DATA", "452 full", MailStep::Message, 452),
        ("(message)", "552 too long", MailStep::Message, 552),
    ] {
        let server = RecordingMailServer::start(replies(&[(start, reply)])).await;
        match send(&outbound(plain(&server))).await {
            Err(MailError::Refused(told)) => {
                assert_eq!((told.step, told.code), (step, code), "{start}: {told}");
            }
            other => panic!("{start}: {other:?}"),
        }
    }
    let server = RecordingMailServer::start(replies(&[("RCPT", "550 5.1.1 no such user")])).await;
    let error = send(&outbound(plain(&server))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the mail server answered 550 to the recipient: no such user"
    );
}

#[tokio::test]
async fn a_refused_recipient_does_not_affect_the_others() {
    let server =
        RecordingMailServer::start(replies(&[("RCPT TO:<bob@", "550 no such user")])).await;
    let mut mail = mail();
    mail.to = ["ann@example.org", "bob@example.org", "eve@example.org"]
        .map(String::from)
        .into();
    let sent = outbound(plain(&server)).send_mail(mail).await.unwrap();
    assert_eq!(
        sent.refused
            .iter()
            .map(|(place, reply)| (*place, reply.code))
            .collect::<Vec<_>>(),
        [(1, 550)]
    );
    assert_eq!(server.count("DATA"), 1);
}

#[tokio::test]
async fn a_broken_connection_has_an_unknown_result_only_after_the_message() {
    for (start, doubtful) in [
        ("EHLO", false),
        ("RCPT", false),
        ("DATA", false),
        ("(message)", true),
    ] {
        let server = RecordingMailServer::start(replies(&[(start, "")])).await;
        match send(&outbound(plain(&server))).await {
            Err(MailError::Send(error)) => {
                assert_eq!(
                    (error.stage, error.may_have_arrived),
                    (SendStage::Exchange, doubtful),
                    "{start}"
                );
                assert!(words(&error).contains("127.0.0.1"), "{error}");
            }
            other => panic!("{start}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_silent_mail_server_times_out() {
    // The replies are incomplete.
    let server = RecordingMailServer::start(replies(&[("(greeting)", "220-wait")])).await;
    let mut mail = mail();
    mail.timeout = Duration::from_millis(300);
    let Err(MailError::Send(error)) = outbound(plain(&server)).send_mail(mail).await else {
        panic!()
    };
    assert_eq!(
        (error.stage, error.may_have_arrived),
        (SendStage::Timeout, false)
    );
}

#[tokio::test]
async fn the_error_for_the_wrong_tls_mode_names_the_right_one() {
    // A server without TLS at the beginning receives a TLS handshake.
    let plain = RecordingMailServer::start(MailScript::default()).await;
    let error = send(&outbound(relay(
        &format!("smtps://{}", plain.address),
        None,
    )))
    .await
    .unwrap_err();
    let MailError::Send(error) = error else {
        panic!("{error:?}")
    };
    assert!(
        words(&error).contains("use smtp:// instead of smtps://"),
        "{error}"
    );
    // A server that expects TLS receives none.
    let waiting = crate::support::receiver::Receiver::start_tls(
        [crate::support::receiver::ResponseAction::Silence],
        Authority::new().issue("127.0.0.1").acceptor,
    )
    .await;
    let outbound = outbound(relay(&format!("smtp+plain://{}", waiting.address), None));
    let mail = OutgoingMail {
        timeout: Duration::from_secs(1),
        ..mail()
    };
    let MailError::Send(error) = outbound.send_mail(mail).await.unwrap_err() else {
        panic!("no error of sending")
    };
    assert!(
        words(&error).contains("use smtps:// instead of smtp://"),
        "{error}"
    );
}

#[tokio::test]
async fn without_a_server_there_is_no_mail() {
    let Err(MailError::Send(error)) = send(&outbound(config())).await else {
        panic!()
    };
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Setup,
            "no mail server is set; start with --mail-server"
        )
    );
}

#[tokio::test]
async fn tls_is_required_and_passwords_are_sent_only_over_it() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let password = directory.path().join("password");
    std::fs::write(&password, "pa ss\n").unwrap();
    let acceptor = || Some(authority.issue("localhost").acceptor);
    let start = |script: MailScript| RecordingMailServer::start(script);
    let with = |url: String| {
        outbound(OutboundConfig {
            ca_file: Some(authority.file(&directory)),
            ..relay(&url, Some(password.clone()))
        })
    };

    // STARTTLS. Extensions that are offered without encryption do not count.
    let script = MailScript {
        offers: vec!["STARTTLS", "AUTH CRAM-MD5"],
        offers_after_tls: vec!["AUTH CRAM-MD5 PLAIN"],
        tls: acceptor(),
        ..MailScript::default()
    };
    let server = start(script).await;
    send(&with(format!(
        "smtp://me@localhost:{}",
        server.address.port()
    )))
    .await
    .unwrap();
    let lines = server.received_lines();
    assert_eq!(
        lines[1..4],
        ["EHLO [127.0.0.1]", "STARTTLS", "EHLO [127.0.0.1]"]
    );
    assert_eq!(lines[4], "AUTH PLAIN AG1lAHBhIHNz");

    // TLS from the beginning, and LOGIN if PLAIN is not offered.
    let server = start(MailScript {
        offers: vec!["AUTH CRAM-MD5 LOGIN"],
        tls: acceptor(),
        implicit: true,
        ..MailScript::default()
    })
    .await;
    send(&with(format!(
        "smtps://me@localhost:{}",
        server.address.port()
    )))
    .await
    .unwrap();
    assert_eq!(
        server.received_lines()[2..5],
        ["AUTH LOGIN", "bWU=", "cGEgc3M="]
    );

    // A server without STARTTLS gets no message.
    let server = start(MailScript {
        offers: vec!["AUTH PLAIN"],
        ..MailScript::default()
    })
    .await;
    let Err(MailError::Send(error)) = send(&with(format!(
        "smtp://me@localhost:{}",
        server.address.port()
    )))
    .await
    else {
        panic!()
    };
    assert_eq!(error.stage, SendStage::Tls);
    assert!(
        words(&error).starts_with("the mail server localhost does not offer STARTTLS"),
        "{error}"
    );
    assert_eq!((server.count("AUTH"), server.count("MAIL")), (0, 0));

    // Neither does a server with the certificate of another.
    let server = start(MailScript {
        offers: vec!["STARTTLS"],
        tls: Some(Authority::new().issue("localhost").acceptor),
        ..MailScript::default()
    })
    .await;
    let Err(MailError::Send(error)) = send(&with(format!(
        "smtp://me@localhost:{}",
        server.address.port()
    )))
    .await
    else {
        panic!()
    };
    assert_eq!(error.stage, SendStage::Tls);
    assert_eq!(server.count("AUTH"), 0);

    // A wrong password.
    let script = MailScript {
        offers: vec!["AUTH PLAIN LOGIN"],
        tls: acceptor(),
        implicit: true,
        ..replies(&[("AUTH", "535 5.7.8 wrong: pa ss, AG1lAHBhIHNz or cGEgc3M=")])
    };
    let server = start(script).await;
    match send(&with(format!(
        "smtps://me@localhost:{}",
        server.address.port()
    )))
    .await
    {
        Err(MailError::Refused(reply)) => {
            assert_eq!((reply.step, reply.code), (MailStep::Login, 535));
            assert!(
                reply.text.ends_with("wrong: ***, *** or ***"),
                "{}",
                reply.text
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(server.count("AUTH"), 1);
}
