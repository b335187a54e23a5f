//! Measured server: its parsed URL, and single requests beside the load.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::chunks::ChunkDecoder;
use super::{Request, Result};

/// Timeout of a single request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A base URL, resolved.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    host: Box<str>,
    base: Box<str>,
}

/// Response to a single request.
pub(crate) struct EndpointReply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl EndpointReply {
    /// Returns the value of a header, if there is one.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value))
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> std::result::Result<Self, String> {
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| format!("{url}: the URL has to begin with http://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let with_port = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let mut addresses = with_port
            .to_socket_addrs()
            .map_err(|error| format!("{host}: {error}"))?;
        let address = addresses
            .next()
            .ok_or_else(|| format!("{host} has no address"))?;
        let base = path.trim_end_matches('/');
        let base = if base.is_empty() {
            String::new()
        } else {
            format!("/{base}")
        };
        Ok(Self {
            address,
            host: host.into(),
            base: base.into(),
        })
    }
}

impl Endpoint {
    /// Returns the address to connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the value of the `Host` header.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path prefix, without a trailing slash.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends one request on its own connection.
    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<EndpointReply> {
        let headers: Vec<_> = headers
            .iter()
            .copied()
            .chain([("Connection", "close")])
            .collect();
        let request = Request::new(self, method, path, &headers, body, 1);
        let mut stream = TcpStream::connect_timeout(&self.address, REQUEST_TIMEOUT)?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        stream.write_all(&request.bytes)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .ok_or("the server did not answer")?;
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer)?;
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or("the answer has no status")?;
        let mut reply = EndpointReply { status, head, body };
        if reply.header("transfer-encoding").is_some() {
            let mut decoded = Vec::with_capacity(reply.body.len());
            if !ChunkDecoder::default().take(&reply.body, |data| decoded.extend_from_slice(data))? {
                return Err("the answer of the server is incomplete".into());
            }
            reply.body = decoded;
        }
        Ok(reply)
    }

    /// Returns the number of pings that the server has logged for the checks of [`Request::ping`].
    pub(crate) fn logged_pings(&self, api_key: &str) -> Result<u64> {
        #[derive(Deserialize)]
        struct List {
            checks: Vec<Check>,
        }
        #[derive(Deserialize)]
        struct Check {
            slug: String,
            n_pings: u64,
        }
        let EndpointReply { status, body, .. } =
            self.call("GET", "/api/v3/checks/", &[("X-Api-Key", api_key)], "")?;
        if status != 200 {
            return Err(format!(
                "the list of checks was answered {status}: {}",
                String::from_utf8_lossy(&body)
            )
            .into());
        }
        let list: List = serde_json::from_slice(&body)?;
        Ok(list
            .checks
            .iter()
            .filter(|check| check.slug.starts_with("load-"))
            .map(|check| check.n_pings)
            .sum())
    }
}
