//! Framing of messages on the socket: one JSON object on a line, with the version first. A list
//! that is longer than a line is sent in pieces.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::request::{AdminReply, AdminRequest};

/// Version of requests and replies. Both ends must be of the same release; otherwise the client
/// reports an error.
const PROTOCOL_VERSION: u32 = 3;
/// Maximum bytes of a request line. Lists in replies are split to this size as far as rows allow.
pub(super) const MAX_LINE_BYTES: usize = 256 << 10;

/// Maximum bytes of a request from a client that imports: see [limits](crate::docs::limits).
pub(super) const MAX_IMPORT_LINE_BYTES: usize = 2 << 20;

#[derive(Serialize, Deserialize)]
struct MessageLine<T> {
    version: u32,
    /// True if another line belongs to the same reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    message: T,
}

#[derive(Deserialize)]
struct MessageVersion {
    version: u32,
}

/// Returns the line of a request with its line feed.
pub(super) fn encode_request(request: &AdminRequest) -> Result<Vec<u8>, serde_json::Error> {
    encode_line(request, false)
}

/// Returns the lines of a reply; `more`: others follow them.
pub(super) fn encode_reply(
    mut reply: AdminReply,
    more: bool,
) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let line = encode_line(&reply, more)?;
    if line.len() > MAX_LINE_BYTES
        && let Some(rest) = reply.split_off()
    {
        let mut lines = encode_reply(reply, true)?;
        lines.extend(encode_reply(rest, more)?);
        return Ok(lines);
    }
    Ok(vec![line])
}

fn encode_line(message: &impl Serialize, more: bool) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&MessageLine {
        version: PROTOCOL_VERSION,
        more,
        message,
    })?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the message of a line, and true if more lines belong to it.
pub(super) fn decode_line<T: DeserializeOwned>(line: &[u8]) -> Result<(T, bool), String> {
    let read = serde_json::from_slice::<MessageLine<T>>(line);
    if let Ok(MessageLine {
        version: PROTOCOL_VERSION,
        more,
        message,
    }) = read
    {
        return Ok((message, more));
    }
    // The rest of a line of another version may have any form.
    let MessageVersion { version } = serde_json::from_slice(line)
        .map_err(|error| format!("not a line of the admin protocol: {error}"))?;
    if version != PROTOCOL_VERSION {
        return Err(format!(
            "the other program uses version {version} of the admin protocol, and this one uses \
             version {PROTOCOL_VERSION}: use the same release of the command and the server"
        ));
    }
    let MessageLine { message, more, .. } =
        read.map_err(|error| format!("not a message of the admin protocol: {error}"))?;
    Ok((message, more))
}

#[cfg(test)]
mod tests {
    use super::super::request::{CheckLimit, ProjectRow};
    use super::*;
    use crate::domain::project::ProjectName;

    #[test]
    fn the_version_comes_first_and_decides() {
        let request = AdminRequest::CreateProject {
            name: ProjectName::parse("a").unwrap(),
            check_limit: CheckLimit::At(3),
            ping_log_limit: 5,
        };
        let line = String::from_utf8(encode_request(&request).unwrap()).unwrap();
        assert_eq!(
            line,
            concat!(
                r#"{"version":3,"message":{"create_project":{"name":"a","#,
                r#""check_limit":{"at":3},"ping_log_limit":5}}}"#,
                "\n"
            )
        );
        assert!(matches!(
            decode_line(line.as_bytes()),
            Ok((
                AdminRequest::CreateProject {
                    ping_log_limit: 5,
                    ..
                },
                false
            ))
        ));
        let newer = line.replace("\"version\":3", "\"version\":4");
        assert!(
            decode_line::<AdminRequest>(newer.as_bytes())
                .err()
                .unwrap()
                .contains("uses version 4")
        );
    }

    #[test]
    fn a_long_list_is_split_into_parts() {
        let row = |checks| ProjectRow {
            uuid: uuid::Uuid::nil(),
            name: "x".repeat(50_000),
            checks,
            check_limit: None,
            ping_log_limit: 1,
            trial: false,
        };
        let lines = encode_reply(AdminReply::Projects((0..20).map(row).collect()), false).unwrap();
        assert!(lines.len() > 3 && lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
        let (mut whole, mut more) = decode_line::<AdminReply>(&lines[0]).unwrap();
        for line in &lines[1..] {
            assert!(more);
            let (piece, follows) = decode_line(line).unwrap();
            whole.append(piece).ok().unwrap();
            more = follows;
        }
        let AdminReply::Projects(rows) = whole else {
            panic!("another reply")
        };
        assert_eq!(
            (rows.iter().map(|row| row.checks).collect::<Vec<_>>(), more),
            ((0..20).collect(), false)
        );
        // A row is never split.
        let huge = ProjectRow {
            name: "x".repeat(MAX_LINE_BYTES),
            ..row(1)
        };
        assert_eq!(
            encode_reply(AdminReply::Projects(vec![huge]), false)
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn invalid_requests_are_rejected_while_they_are_parsed() {
        let channel = |settings: &str| {
            format!(r#"{{"create_channel":{{"project":"p","name":"n","settings":{settings}}}}}"#)
        };
        for (message, part) in [
            (
                r#"{"create_project":{"name":"","check_limit":"none","ping_log_limit":5}}"#
                    .to_owned(),
                "cannot be empty",
            ),
            (
                r#"{"create_key":{"project":"p","access":"all","label":""}}"#.to_owned(),
                "unknown access",
            ),
            (
                r#"{"revoke_key":{"id":1,"idd":2}}"#.to_owned(),
                "unknown field `idd`",
            ),
            (r#"{"erase":{}}"#.to_owned(), "unknown variant `erase`"),
            (channel(r#"["fax",[]]"#), "unknown kind of channel"),
            (channel(r#"["email",[]]"#), "to is missing"),
        ] {
            let error = decode_line::<AdminRequest>(
                format!(r#"{{"version":3,"message":{message}}}"#).as_bytes(),
            )
            .err()
            .unwrap();
            assert!(error.contains(part), "{message}: {error}");
        }
        for line in ["", "null", "{}", "[1]", "{\"version\":\"1\"}"] {
            assert!(
                decode_line::<AdminReply>(line.as_bytes()).is_err(),
                "{line}"
            );
        }
    }
}
