//! Output of jobs and mails in alerts.

use proptest::prelude::*;

use super::alert_text::whole;
use super::kinds::{example, minimal_settings, sending_kinds};
use super::sample::{PING_KEY, attempt, backup, down, every_event, mail_ping, of_check, ping};
use crate::channels::prepare;
use crate::channels::send_step::SendStep;
use crate::domain::flip::FlipCause;
use crate::domain::ping::PingKind;

#[test]
fn messages_contain_no_secret_that_allows_pings() {
    for (_, alert) in every_event() {
        assert!(!format!("{}{}", whole(&alert), alert.one_line).contains("6f3a0f6e"));
    }
}

/// Mail to the address of a check, with headers of mail servers and text that people quote.
fn mail_to(address: &str, body: &str) -> String {
    format!(
        "Received: from nas by hc.test with ESMTP\r\n\tfor <{address}>; Fri, 20 Nov 2026 01:34:05 \
         +0000\r\nDelivered-To: {address}\r\nX-Original-To: {address}\r\nFrom: \
         nas@example.org\r\nTo: {address}\r\nSubject: Backup\r\nContent-Type: \
         text/plain;\r\n charset=utf-8;\r\n\tformat=flowed\r\n\r\n{body}\r\n"
    )
}

proptest! {
    /// For a check that is pinged by mail or by HTTP, or whose job prints its own address.
    #[test]
    fn no_message_contains_an_address_that_pings(
        place in 0_usize..4,
        by_mail: bool,
        before in "[ -~]{0,30}",
        after in "[ -~]{0,30}",
        noise in 0_usize..12_000,
    ) {
        let uuid = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
        let pings = [
            format!("{uuid}@hc.test"),
            format!("{}@hc.test", uuid.to_uppercase()),
            format!("{PING_KEY}+nightly-backup@hc.test"),
            format!("https://hc.test/ping/{PING_KEY}/nightly-backup"),
        ];
        let address = &pings[place];
        let quoted = format!("{before} {address} {after}\n{}", "x".repeat(noise));
        let mut check = backup();
        check.last_ping = Some(if by_mail {
            mail_ping(&mail_to(address, &quoted), &format!("Re: {address}"), &quoted)
        } else {
            ping(PingKind::Fail, "2026-11-20T01:34:05Z", None, quoted.as_bytes())
        });
        let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
        for kind in sending_kinds().filter(|kind| kind.name != "shell") {
            for step in prepare(&minimal_settings(kind), &alert, &attempt()).unwrap() {
                let sent = match step {
                    SendStep::Http(request) => {
                        let body = String::from_utf8(request.body).unwrap();
                        format!("{} {body}", request.url)
                    }
                    SendStep::Mail(mail) => {
                        let attachment = mail.attachment.unwrap_or_default();
                        let attachment = String::from_utf8_lossy(&attachment);
                        format!("{} {} {} {attachment}", mail.subject, mail.text, mail.html)
                    }
                    step => panic!("{step:?}"),
                };
                let plain = percent_encoding::percent_decode_str(&sent)
                    .decode_utf8_lossy()
                    .to_ascii_lowercase()
                    .replace('\\', "");
                prop_assert!(
                    !plain.contains("6f3a0f6e-0c9b-4f0e")
                        && !plain.contains(&PING_KEY.to_ascii_lowercase()),
                    "{kind:?} {plain}"
                );
            }
        }
    }
}

#[test]
fn a_mail_is_shown_by_its_subject_and_its_text() {
    let mut check = backup();
    check.last_ping = Some(mail_ping(
        &mail_to("x@hc.test", "YmFja3VwIGZhaWxlZA=="),
        "Backup: žluť",
        "backup failed",
    ));
    let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
    let shown = whole(&alert);
    assert!(
        shown.contains("\nSubject: Backup: žluť\n")
            && shown.contains("The last lines of its mail:\nbackup failed"),
        "{shown}"
    );
    assert!(
        !shown.contains("Delivered-To") && !shown.contains("YmFja3Vw"),
        "{shown}"
    );
    // An attached mail has only the header fields with its encoding, sender and subject.
    let steps = prepare(&example("email"), &alert, &attempt()).unwrap();
    let [SendStep::Mail(mail)] = steps.as_slice() else {
        panic!()
    };
    let attached = String::from_utf8(mail.attachment.clone().unwrap()).unwrap();
    assert_eq!(
        attached,
        "From: nas@example.org\r\nSubject: Backup\r\nContent-Type: \
         text/plain;\r\n charset=utf-8;\r\n\tformat=flowed\r\n\r\nYmFja3VwIGZhaWxlZA==\r\n"
    );
}

#[test]
fn a_mail_is_attached_if_it_is_short_and_no_part_of_it_contains_its_address() {
    let address = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f@hc.test";
    let header = "Subject: a\r\n\r\n";
    let rest = |len: usize| "x".repeat(len - header.len());
    for (subject, text, body, is_attached) in [
        ("a", "b", "b".to_owned(), true),
        (address, "b", "b".to_owned(), false),
        ("a", address, "b".to_owned(), false),
        ("a", "b", address.to_owned(), false),
        ("a", "b", rest(1_000_000), true),
        ("a", "b", rest(1_000_001), false),
    ] {
        let mut check = backup();
        check.last_ping = Some(mail_ping(&format!("{header}{body}"), subject, text));
        let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
        let steps = prepare(&example("email"), &alert, &attempt()).unwrap();
        let [SendStep::Mail(mail)] = steps.as_slice() else {
            panic!()
        };
        let len = body.len();
        assert_eq!(
            mail.attachment.is_some(),
            is_attached,
            "{subject} {text} {len}"
        );
        let plain = crate::channels::SendAttempt {
            plain: true,
            ..attempt()
        };
        let steps = prepare(&example("email"), &alert, &plain).unwrap();
        assert!(matches!(&steps[..], [SendStep::Mail(mail)] if mail.attachment.is_none()));
    }
}

#[test]
fn bytes_that_are_no_text_are_dropped_only_where_the_output_is_cut() {
    for (lines, shown) in [(0, "\u{fffd}start"), (5_000, "line")] {
        let mut body = b"\xffstart\n".to_vec();
        (0..lines).for_each(|_| body.extend(b"line\n"));
        let mut check = backup();
        let at = "2026-11-20T01:34:05Z";
        check.last_ping = Some(ping(PingKind::Fail, at, None, &body));
        let alert = of_check(check, down(at, FlipCause::Fail));
        let output = alert.output.unwrap();
        assert!(output.text.starts_with(shown), "{}", output.text);
    }
}

#[test]
fn a_long_output_is_shown_from_its_end() {
    let mut check = backup();
    let body = (0..5_000)
        .map(|line| format!("line {line} ž\n"))
        .collect::<String>();
    check.last_ping = Some(ping(
        PingKind::Fail,
        "2026-11-20T01:34:05Z",
        None,
        body.as_bytes(),
    ));
    let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
    let shown = whole(&alert);
    assert!(
        shown.contains("line 4999 ž")
            && !shown.contains("line 4800 ")
            && shown.contains("The last lines it sent:\n…"),
        "{shown}"
    );
    assert!(alert.output.unwrap().text.len() <= 10_000);
}
