use proptest::prelude::*;

use super::*;

const UUID: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
const OTHER: &str = "6f3a0f6e-0c9b-4f0e-9b1b-111111111111";

fn domain() -> MailDomain {
    MailDomain::parse("d").unwrap()
}

/// Transcript of a session: all replies in their order, the messages, and whether it was ended.
#[derive(PartialEq, Debug, Default)]
struct DialogueTester {
    replies: String,
    envelopes: Vec<Envelope>,
    closed: bool,
}

impl DialogueTester {
    fn push(&mut self, dialogue: &mut Dialogue, mut input: &[u8]) {
        while !self.closed {
            match dialogue.step(&mut input) {
                DialogueStep::NeedMore => break,
                DialogueStep::Reply(reply) | DialogueStep::StartTls(reply) => {
                    self.replies.push_str(&reply);
                }
                DialogueStep::Deliver(envelope) => {
                    self.envelopes.push(envelope);
                    self.replies.push_str(&Dialogue::delivery_reply(true));
                }
                DialogueStep::Close(reply) => {
                    self.replies.push_str(&reply);
                    self.closed = true;
                }
            }
        }
    }
}

fn talk(tls: TlsState, pieces: &[&[u8]]) -> DialogueTester {
    let mut dialogue = Dialogue::new(domain(), tls);
    let mut session = DialogueTester::default();
    for piece in pieces {
        session.push(&mut dialogue, piece);
    }
    session
}

/// Returns the codes of the replies; of a reply of several lines only that of the last.
fn codes(session: &DialogueTester) -> String {
    let last = session
        .replies
        .lines()
        .filter(|line| line.as_bytes()[3] == b' ');
    last.map(|line| &line[..3]).collect::<Vec<_>>().join(" ")
}

#[test]
fn commands_are_answered_in_order() {
    let key = "aZ09-_aZ09-_aZ09-_aZ09";
    for (sent, answered) in [
        // The usual commands, in any case, with blanks and with bare LF.
        (
            format!(
                "EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\nhi\r\n.\r\nQUIT\r\n"
            ),
            "250 250 250 354 250 221",
        ),
        (
            format!("helo x\nmail from: <>\nrcpt to: <{UUID}@d>\ndata\nhi\r\n.\r\nquit\n"),
            "250 250 250 354 250 221",
        ),
        (
            format!(
                "HELO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<{key}+s@d>\r\nRCPT TO:<{UUID}@d> \
                 \r\nDATA\r\n.\r\nNOOP\r\n"
            ),
            "250 250 250 250 354 250 250",
        ),
        // A session continues after a message, and after RSET.
        (
            format!(
                "EHLO x\r\nMAIL FROM:<>\r\nRSET\r\nMAIL FROM:<>\r\nRCPT \
                 TO:<{UUID}@d>\r\nRSET\r\nDATA\r\n"
            ),
            "250 250 250 250 250 250 503",
        ),
        (
            format!(
                "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nEHLO x\r\nRCPT TO:<{UUID}@d>\r\n"
            ),
            "250 250 250 250 503",
        ),
        // Recipients are refused one by one.
        (
            format!(
                "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@e>\r\nRCPT TO:<{UUID}@d>\r\nRCPT \
                 TO:<postmaster>\r\nRCPT TO:<x@d>\r\nDATA\r\n.\r\n"
            ),
            "250 250 550 250 550 550 354 250",
        ),
        (
            format!(
                "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d@e>\r\nRCPT TO:<>\r\nRCPT \
                 TO:<{UUID}>\r\nDATA\r\n"
            ),
            "250 250 550 550 550 503",
        ),
        // Old devices omit the brackets.
        (
            format!(
                "HELO x\r\nMAIL FROM:ups@example.org\r\nRCPT TO:{UUID}@D\r\nrcpt  to : {UUID}@d \
                 \r\nDATA\r\n.\r\n"
            ),
            "250 250 250 250 354 250",
        ),
        (
            format!(
                "HELO x\r\nMAIL FROM: root SIZE=10\r\nRCPT TO:{UUID}@e\r\nRCPT TO:x\r\nRCPT TO: \
                 \r\n"
            ),
            "250 250 550 550 501",
        ),
        (
            "EHLO x\r\nMAIL FROM:a@b SIZE=33554433\r\nMAIL FROM:a@b>\r\nMAIL FROM:<a@b\r\nMAIL \
             TO:a@b\r\n"
                .to_owned(),
            "250 552 501 501 501",
        ),
        (
            "EHLO x\r\nNOOP MAIL FROM:a@b\r\nMAIL FROM:a@b c@d\r\n".to_owned(),
            "250 250 555",
        ),
        // Commands out of order.
        (
            "MAIL FROM:<>\r\nRCPT TO:<x@d>\r\nDATA\r\nNOOP\r\nQUIT\r\n".to_owned(),
            "503 503 503 250 221",
        ),
        (
            "EHLO x\r\nRCPT TO:<x>\r\nDATA\r\nMAIL FROM:<>\r\nMAIL FROM:<>\r\nDATA\r\n".to_owned(),
            "250 503 503 250 503 503",
        ),
        // Unsupported commands.
        (
            "EHLO x\r\nVRFY root\r\nEXPN all\r\nHELP\r\nAUTH PLAIN AGEAYg==\r\nBDAT 3 \
             LAST\r\nSTARTTLS\r\nETRN x\r\n"
                .to_owned(),
            "250 252 502 214 502 502 502 502",
        ),
        (
            "GET / HTTP/1.1\r\n\r\nfoo\r\nEHLO\r\nHELO \r\nMAIL\r\nMAIL FROM:\r\nRCPT TO\r\n"
                .to_owned(),
            "500 500 500 501 501 501 501 501",
        ),
        // Parameters of MAIL.
        (
            "EHLO x\r\nMAIL FROM:<a@b> SIZE=33554432 BODY=8BITMIME SMTPUTF8\r\n".to_owned(),
            "250 250",
        ),
        (
            "EHLO x\r\nMAIL FROM:<a@b> SIZE=33554433\r\nMAIL FROM:<a@b> SIZE=0\r\n".to_owned(),
            "250 552 250",
        ),
        (
            "EHLO x\r\nMAIL FROM:<a@b> SIZE=18446744073709551614\r\n".to_owned(),
            "250 552",
        ),
        (
            "EHLO x\r\nMAIL FROM:<a@b> SIZE=x\r\nMAIL FROM:<a@b> FOO=1\r\nMAIL FROM:<a@b> \
             BODY=8\r\n"
                .to_owned(),
            "250 501 555 501",
        ),
        // Senders need no domain; an invalid sender is refused.
        (
            "EHLO x\r\nMAIL FROM:<root> SIZE=10\r\n".to_owned(),
            "250 250",
        ),
        (
            "EHLO x\r\nMAIL FROM:<root> SIZE=33554433\r\n".to_owned(),
            "250 552",
        ),
        (
            "EHLO x\r\nMAIL FROM:<a\0b@c>\r\nMAIL FROM:<a\r\nMAIL FROM:<<a>\r\n".to_owned(),
            "250 553 553 553",
        ),
    ] {
        let session = talk(TlsState::None, &[sent.as_bytes()]);
        assert_eq!(codes(&session), answered, "{sent}");
    }
}

#[test]
fn replies_are_worded_as_promised() {
    let sent = format!(
        "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@elsewhere>\r\nRCPT TO:<x@d>\r\nRCPT \
         TO:<{UUID}@d>\r\nDATA\r\n.\r\n"
    );
    let session = talk(TlsState::Offered, &[sent.as_bytes()]);
    assert_eq!(
        session.replies,
        "250-d\r\n250-PIPELINING\r\n250-SIZE \
         33554432\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-STARTTLS\r\n250 \
         ENHANCEDSTATUSCODES\r\n250 2.1.0 OK\r\n550 5.1.1 Recipient rejected\r\n550 5.1.1 Invalid \
         mailbox\r\n250 2.1.5 OK\r\n354 End the message with CR LF . CR LF\r\n250 2.0.0 OK\r\n"
    );
    assert!(
        !talk(TlsState::None, &[b"EHLO x\r\n"])
            .replies
            .contains("STARTTLS")
    );
    assert_eq!(
        Dialogue::new(domain(), TlsState::None).greeting(),
        "220 d ESMTP overdue\r\n"
    );
    assert_eq!(&Dialogue::delivery_reply(false)[..4], "451 ");
}

#[test]
fn envelopes_contain_the_sent_messages() {
    let mails = format!(
        "EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<{OTHER}@d>\r\nRCPT TO:<no@d>\r\nRCPT \
         TO:<{UUID}@d>\r\nDATA\r\n..a\r\n.\r\nMAIL FROM:<>\r\nRCPT \
         TO:<{UUID}@d>\r\nDATA\r\n.\r\nMAIL FROM:root\r\nRCPT \
         TO:{UUID}@d\r\nDATA\r\nb\n.\r\n\r\n.\r\nMAIL FROM:<jos\u{e9}@b>\r\nRCPT \
         TO:<{UUID}@d>\r\nDATA\r\n\0\r\n.\r\n"
    );
    let uuid = PingTarget::Uuid(UUID.parse().unwrap());
    let other = PingTarget::Uuid(OTHER.parse().unwrap());
    let expected = [
        ("a@b", vec![other, uuid.clone()], ".a\r\n"),
        ("", vec![uuid.clone()], ""),
        ("root", vec![uuid.clone()], "b\n.\r\n\r\n"),
        ("jos\u{e9}@b", vec![uuid], "\0\r\n"),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(sender, targets, message)| Envelope {
            sender: sender.to_owned(),
            targets,
            message: message.into(),
        })
        .collect();
    assert_eq!(
        talk(TlsState::None, &[mails.as_bytes()]).envelopes,
        expected
    );
}

#[test]
fn starttls_discards_what_was_sent_in_the_clear() {
    let session = talk(
        TlsState::Offered,
        &[
            b"EHLO x\r\nMAIL FROM:<>\r\nSTARTTLS\r\nNOOP\r\n",
            b"MAIL FROM:<>\r\nEHLO x\r\nSTARTTLS\r\n",
        ],
    );
    assert_eq!(codes(&session), "250 250 220 503 250 503");
    assert!(
        !session
            .replies
            .rsplit("220 ")
            .next()
            .unwrap()
            .contains("STARTTLS")
    );
}

#[test]
fn a_message_that_is_too_large_is_read_to_its_end_and_refused() {
    let mut dialogue = Dialogue::new(domain(), TlsState::None);
    let mut session = DialogueTester::default();
    let to = format!("MAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\n");
    session.push(&mut dialogue, format!("EHLO x\r\n{to}").as_bytes());
    let piece = vec![b'x'; 1_048_576];
    for _ in 0..32 {
        session.push(&mut dialogue, &piece);
    }
    assert_eq!(dialogue.buffered_bytes(), MAX_MESSAGE_BYTES);
    session.push(&mut dialogue, b"\r\n");
    assert_eq!(dialogue.buffered_bytes(), 0);
    session.push(&mut dialogue, &piece);
    session.push(
        &mut dialogue,
        format!("\r\n.\r\n{to}hi\r\n.\r\n").as_bytes(),
    );
    assert_eq!(codes(&session), "250 250 250 354 552 250 250 354 250");
    assert_eq!(session.envelopes.len(), 1);
}

#[test]
fn the_largest_message_is_accepted() {
    let mut dialogue = Dialogue::new(domain(), TlsState::None);
    let mut session = DialogueTester::default();
    session.push(
        &mut dialogue,
        format!("EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\n").as_bytes(),
    );
    session.push(&mut dialogue, &vec![b'x'; MAX_MESSAGE_BYTES - 2]);
    session.push(&mut dialogue, b"\r\n.\r\n");
    assert_eq!(codes(&session), "250 250 250 354 250");
    assert_eq!(session.envelopes[0].message.len(), MAX_MESSAGE_BYTES);
}

#[test]
fn a_message_without_memory_is_truncated() {
    let mut dialogue = Dialogue::new(domain(), TlsState::None);
    let mut session = DialogueTester::default();
    session.push(
        &mut dialogue,
        format!("EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\nlong").as_bytes(),
    );
    assert_eq!(dialogue.buffered_bytes(), 4);
    dialogue.truncate_message(3);
    assert_eq!(dialogue.buffered_bytes(), 3);
    session.push(&mut dialogue, b"er\r\n");
    assert_eq!(dialogue.buffered_bytes(), 3);
    session.push(
        &mut dialogue,
        format!(".\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\nwhole\r\n.\r\n").as_bytes(),
    );
    assert_eq!(codes(&session), "250 250 250 354 250 250 250 354 250");
    assert_eq!(
        session
            .envelopes
            .iter()
            .map(|envelope| envelope.message.as_slice())
            .collect::<Vec<_>>(),
        [&b"lon"[..], b"whole\r\n"]
    );
    // The limit of its length stays.
    session.push(
        &mut dialogue,
        format!("MAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\n").as_bytes(),
    );
    dialogue.truncate_message(3);
    session.push(&mut dialogue, &vec![b'x'; MAX_MESSAGE_BYTES + 1]);
    session.push(&mut dialogue, b"\r\n.\r\n");
    assert!(codes(&session).ends_with("354 552"));
}

#[test]
fn declared_sizes_are_compared_with_the_largest() {
    for (parameters, code) in [
        (" SIZE=33554432", "250"),
        (" SIZE=000000000000000000000033554432", "250"),
        (" SIZE=33554433", "552"),
        (" size=99999999999999999999999 BODY=8BITMIME", "552"),
        (" BODY=8BITMIME SIZE=18446744073709551617", "552"),
    ] {
        for from in ["<a@b>", "<root>", "a@b"] {
            let session = talk(
                TlsState::None,
                &[format!("EHLO x\r\nMAIL FROM:{from}{parameters}\r\n").as_bytes()],
            );
            assert_eq!(codes(&session), format!("250 {code}"), "{from}{parameters}");
        }
    }
}

#[test]
fn sessions_are_bounded() {
    let recipient = |number| format!("RCPT TO:<{}@d>\r\n", uuid::Uuid::from_u128(number));
    let recipients: String = (0..MAX_RECIPIENTS as u128 + 2).map(recipient).collect();
    let session = talk(
        TlsState::None,
        &[
            b"EHLO x\r\nMAIL FROM:<>\r\n",
            recipients.as_bytes(),
            b"DATA\r\n.\r\n",
        ],
    );
    assert!(codes(&session).ends_with("250 452 452 354 250"));
    assert_eq!(session.envelopes[0].targets.len(), MAX_RECIPIENTS);
    // A repeated recipient does not count twice.
    let session = talk(
        TlsState::None,
        &[
            b"EHLO x\r\nMAIL FROM:<>\r\n",
            recipient(1).repeat(MAX_RECIPIENTS + 2).as_bytes(),
            b"DATA\r\n.\r\n",
        ],
    );
    assert!(codes(&session).ends_with("250 250 250 354 250"));
    assert_eq!(session.envelopes[0].targets.len(), 1);

    let session = talk(
        TlsState::None,
        &[b"NOOP\r\n".repeat(MAX_COMMANDS as usize + 5).as_slice()],
    );
    assert!(session.closed && session.replies.matches("250 ").count() == MAX_COMMANDS as usize - 1);
    assert!(
        session
            .replies
            .ends_with("421 4.7.0 Too many commands: connect again\r\n")
    );

    let session = talk(
        TlsState::None,
        &[b"X: y\r\n".repeat(MAX_MISTAKES as usize + 5).as_slice()],
    );
    assert!(
        session.closed && codes(&session).ends_with("500 421"),
        "{}",
        session.replies
    );

    // Refused recipients are not mistakes: a mailer may have a long list of old addresses.
    let session = talk(
        TlsState::None,
        &[
            b"EHLO x\r\nMAIL FROM:<>\r\n",
            b"RCPT TO:<x@d>\r\n".repeat(100).as_slice(),
        ],
    );
    assert!(!session.closed);
}

#[test]
fn long_lines_are_refused_and_not_kept() {
    let long = |length: usize| format!("NOOP {}\r\n", "x".repeat(length - 7));
    for (sent, answered) in [
        (long(MAX_LINE_BYTES), "250 250"),
        (long(MAX_LINE_BYTES + 1), "500 250"),
        (long(50_000), "500 250"),
    ] {
        let sent = sent + "NOOP\r\n";
        assert_eq!(
            codes(&talk(TlsState::None, &[sent.as_bytes()])),
            answered,
            "{}",
            sent.len()
        );
        let pieces: Vec<_> = sent.as_bytes().chunks(1000).collect();
        assert_eq!(
            codes(&talk(TlsState::None, &pieces)),
            answered,
            "{} in pieces",
            sent.len()
        );
    }
    let mut dialogue = Dialogue::new(domain(), TlsState::None);
    let mut session = DialogueTester::default();
    for _ in 0..100 {
        session.push(&mut dialogue, &[b'x'; 1000]);
        assert!(dialogue.line.len() <= MAX_LINE_BYTES);
    }
    assert_eq!(session, DialogueTester::default());
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let commands = prop::sample::select(vec![
        "EHLO x",
        "HELO x",
        "MAIL FROM:<a@b>",
        "MAIL FROM:<> SIZE=5",
        "RCPT TO:<x@d>",
        "RCPT TO:<y@e>",
        "DATA",
        ".",
        "..",
        "RSET",
        "NOOP",
        "QUIT",
        "VRFY x",
        "STARTTLS",
        "MAIL FROM:<a",
        "BDAT 5",
        "AUTH LOGIN",
        "",
        "RCPT TO:<6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@d>",
        "EHLO x",
        "MAIL FROM:<root>",
        "DATA",
        ".",
        "RCPT TO:<6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@d>",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "\r"]);
    let text = prop_oneof![
        8 => commands.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    (text, end).prop_map(|(text, end)| [text, end.as_bytes().to_vec()].concat())
}

proptest! {
    #[test]
    fn a_session_does_not_depend_on_the_size_of_chunks(
        lines in prop::collection::vec(line(), 0..40),
        chunk_bytes in 1..50_usize,
    ) {
        let sent = lines.concat();
        let chunks: Vec<_> = sent.chunks(chunk_bytes).collect();
        prop_assert_eq!(talk(TlsState::None, &chunks), talk(TlsState::None, &[&sent]));
    }

    #[test]
    fn replies_are_well_formed_lines(lines in prop::collection::vec(line(), 0..40)) {
        let session = talk(TlsState::None, &[&lines.concat()]);
        for reply in session.replies.split_inclusive("\r\n") {
            let (code, text) = reply.split_at(3);
            let is_in_range = code
                .parse::<u16>()
                .is_ok_and(|code| (200..560).contains(&code));
            prop_assert!(is_in_range, "{reply:?}");
            prop_assert!(text.starts_with([' ', '-']), "{reply:?}");
            prop_assert!(text.ends_with("\r\n") && reply.len() <= 512, "{reply:?}");
        }
        for envelope in &session.envelopes {
            prop_assert!(!envelope.targets.is_empty());
        }
    }

    #[test]
    fn the_content_of_a_message_is_never_a_command(
        message in prop::collection::vec(line(), 0..20),
    ) {
        // Any content, if it is stuffed and ended correctly, is one message.
        let mut content = Vec::new();
        for line in message.concat().split_inclusive(|byte| *byte == b'\n') {
            let at_start = content.is_empty() || content.ends_with(b"\r\n");
            if at_start && line.starts_with(b".") {
                content.push(b'.');
            }
            content.extend_from_slice(line);
        }
        let commands = format!("EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{UUID}@d>\r\nDATA\r\n");
        let sent = [commands.as_bytes(), &content, b"\r\n.\r\nQUIT\r\n"].concat();
        let session = talk(TlsState::None, &[&sent]);
        prop_assert_eq!(codes(&session), "250 250 250 354 250 221");
        let expected = [message.concat(), b"\r\n".to_vec()].concat();
        prop_assert_eq!(&session.envelopes[0].message, &expected);
    }
}

#[test]
fn fuzz_sessions() {
    const EXAMPLES: &[&str] = &[
        concat!(
            "EHLO x\r\nMAIL FROM:<a@b> SIZE=5 BODY=8BITMIME\r\n",
            "RCPT TO:<6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@d>\r\nDATA\r\n..a\r\n.\r\nQUIT\r\n",
        ),
        "HELO x\nMAIL FROM:<>\nRCPT TO:x@d\nRSET\nSTARTTLS\n",
        "BDAT 5 LAST\r\nhello AUTH PLAIN AAA=\r\nVRFY x\r\nNOOP\r\n",
    ];
    crate::util::fuzzing::fuzz(EXAMPLES, |sent| {
        let pieces: Vec<_> = sent.chunks(7).collect();
        assert_eq!(talk(TlsState::None, &pieces), talk(TlsState::None, &[sent]));
        // What follows STARTTLS in the same piece is discarded.
        talk(TlsState::Offered, &pieces);
    });
}
