//! Requests of each kind for each event, as text in the files of `snapshots`. Read their changes
//! before a commit.

use std::fmt::Write as _;
use std::path::Path;

use super::kinds::{maximal_settings, minimal_settings, sending_kinds};
use super::sample::{attempt, every_event, failed};
use crate::channels::send_step::{AlertMail, ChannelRequest, SendStep, ShellInvocation};
use crate::channels::{SendAttempt, prepare};
use crate::domain::channel::ChannelClass;

fn shown(steps: &[SendStep]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            SendStep::Http(request) => show_request(request, &mut out),
            SendStep::Mail(mail) => show_mail(mail, &mut out),
            SendStep::Command(ShellInvocation {
                command,
                environment,
                input,
            }) => {
                writeln!(out, "sh -c {command}").unwrap();
                environment
                    .iter()
                    .for_each(|(name, value)| writeln!(out, "{name}={value}").unwrap());
                writeln!(out, "{}", pretty(input)).unwrap();
            }
            SendStep::Unsendable(reason) => writeln!(out, "unsendable: {reason}").unwrap(),
        }
    }
    out
}

fn show_request(request: &ChannelRequest, out: &mut String) {
    writeln!(out, "{} {}", request.method.name(), request.url).unwrap();
    for (name, value) in &request.headers {
        writeln!(
            out,
            "{name}: {}",
            value.replace(env!("CARGO_PKG_VERSION"), "VERSION")
        )
        .unwrap();
    }
    if !request.body.is_empty() {
        let is_form = request
            .headers
            .iter()
            .any(|(_, value)| value.starts_with("application/x-www"));
        let body = if is_form {
            let body = String::from_utf8(request.body.clone()).unwrap();
            let decoded = body.split('&').map(|pair| {
                percent_encoding::percent_decode_str(pair)
                    .decode_utf8()
                    .unwrap()
                    .into_owned()
            });
            decoded.collect::<Vec<_>>().join("\n")
        } else {
            pretty(&request.body)
        };
        writeln!(out, "{body}").unwrap();
    }
}

fn show_mail(mail: &AlertMail, out: &mut String) {
    writeln!(
        out,
        "To: {}\nSubject: {}\nId: {}\nAnswers: {:?}",
        mail.to.join(", "),
        mail.subject,
        mail.message_id,
        mail.in_reply_to
    )
    .unwrap();
    mail.headers
        .iter()
        .for_each(|(name, value)| writeln!(out, "{name}: {value}").unwrap());
    writeln!(out, "\n{}\n{}", mail.text, mail.html).unwrap();
}

fn pretty(body: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap(),
        Err(_) => String::from_utf8(body.to_vec()).unwrap(),
    }
}

#[test]
fn requests_match_the_snapshots() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/channels/tests/snapshots");
    let mut wrong = Vec::new();
    for kind in sending_kinds() {
        let settings = if kind.class == ChannelClass::People {
            minimal_settings(kind).with_value("notices", "on").unwrap()
        } else {
            minimal_settings(kind)
        };
        let settings = if kind.class == ChannelClass::Incident {
            settings
        } else {
            settings.with_value("send", "down,up,limits").unwrap()
        };
        let mut text = String::new();
        for (name, alert) in every_event() {
            let sent = prepare(&settings, &alert, &attempt())
                .map_or("nothing\n".into(), |steps| shown(&steps));
            writeln!(text, "=== {name}\n{sent}").unwrap();
        }
        let plain = SendAttempt {
            plain: true,
            number: 2,
            may_be_duplicate: true,
            ..attempt()
        };
        let sent = prepare(&maximal_settings(kind), &failed(), &plain)
            .map_or("nothing\n".into(), |steps| shown(&steps));
        writeln!(
            text,
            "=== down, in its plainest form, with all settings\n{sent}"
        )
        .unwrap();
        let file = directory.join(format!("{}.txt", kind.name));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        if std::fs::read_to_string(&file).unwrap_or_default() != text {
            wrong.push(format!("{}: not what is sent now", file.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nUPDATE_SNAPSHOTS=1 writes what is sent now",
        wrong.join("\n")
    );
}
