//! A message as it stands on the socket: one JSON object on a line, the version first.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of requests and replies. Both ends must speak the same: they are of one release, or one is told.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: u32,
    message: T,
}

#[derive(Deserialize)]
struct AnyLine {
    version: u32,
}

/// The line of a message, its end included.
pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&Line { version: VERSION, message })?;
    line.push(b'\n');
    Ok(line)
}

/// The message of a line, or what is wrong with it.
pub(super) fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    // The version first: of another one nothing else is known.
    let AnyLine { version } = serde_json::from_slice(line).map_err(|error| format!("not a line of the admin protocol: {error}"))?;
    if version != VERSION {
        return Err(format!(
            "the other end speaks version {version} of the admin protocol, this one version {VERSION}: use the command and the server of one release"
        ));
    }
    let Line { message, .. } = serde_json::from_slice(line).map_err(|error| format!("not a message of the admin protocol: {error}"))?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::super::request::{CheckLimit, Reply, Request};
    use super::*;
    use crate::domain::project::ProjectName;

    #[test]
    fn the_version_comes_first_and_decides() {
        let request = Request::CreateProject { name: ProjectName::parse("a").unwrap(), check_limit: CheckLimit::At(3), ping_log_limit: 5 };
        let line = String::from_utf8(encode(&request).unwrap()).unwrap();
        assert_eq!(
            line,
            "{\"version\":2,\"message\":{\"create_project\":{\"name\":\"a\",\"check_limit\":{\"at\":3},\"ping_log_limit\":5}}}\n"
        );
        assert!(matches!(decode(line.as_bytes()), Ok(Request::CreateProject { ping_log_limit: 5, .. })));
        let newer = line.replace("\"version\":2", "\"version\":3");
        assert!(decode::<Request>(newer.as_bytes()).err().unwrap().contains("speaks version 3"));
    }

    #[test]
    fn what_a_request_cannot_hold_is_refused_while_it_is_read() {
        let channel = |settings: &str| format!(r#"{{"create_channel":{{"project":"p","name":"n","settings":{settings}}}}}"#);
        for (message, part) in [
            (r#"{"create_project":{"name":"","check_limit":"none","ping_log_limit":5}}"#.to_owned(), "cannot be empty"),
            (r#"{"create_key":{"project":"p","access":"all","label":""}}"#.to_owned(), "no such access"),
            (r#"{"revoke_key":{"id":1,"idd":2}}"#.to_owned(), "unknown field `idd`"),
            (r#"{"erase":{}}"#.to_owned(), "unknown variant `erase`"),
            (channel(r#"["fax",[]]"#), "no such kind"),
            (channel(r#"["email",[]]"#), "to is missing"),
        ] {
            let error = decode::<Request>(format!(r#"{{"version":2,"message":{message}}}"#).as_bytes()).err().unwrap();
            assert!(error.contains(part), "{message}: {error}");
        }
        for line in ["", "null", "{}", "[1]", "{\"version\":\"1\"}"] {
            assert!(decode::<Reply>(line.as_bytes()).is_err(), "{line}");
        }
    }
}
