//! A minimal HTTP client for tests.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection that stays open between requests.
pub struct HttpClient(BufReader<TcpStream>);

pub struct HttpClientResponse {
    pub status: u16,
    /// Time of the data, if no machine of the cluster leads.
    pub as_of: Option<String>,
    pub body: Vec<u8>,
}

impl HttpClient {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    pub fn receive(&mut self) -> io::Result<HttpClientResponse> {
        let mut status = 0;
        let mut length = 0;
        let mut as_of = None;
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            } else if let Some(value) = line.strip_prefix("overdue-as-of: ") {
                as_of = Some(value.trim().to_owned());
            } else if line == "\r\n" {
                let mut body = vec![0; length];
                self.0.read_exact(&mut body)?;
                return Ok(HttpClientResponse {
                    status,
                    as_of,
                    body,
                });
            }
        }
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> io::Result<HttpClientResponse> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())?;
        self.receive()
    }

    pub fn post_with(
        &mut self,
        path: &str,
        key: &str,
        body: &[u8],
    ) -> io::Result<HttpClientResponse> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat())?;
        self.receive()
    }

    pub fn get(&mut self, path: &str, key: &str) -> io::Result<HttpClientResponse> {
        self.send(
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\n\r\n").as_bytes(),
        )?;
        self.receive()
    }

    /// Waits until the other end has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        !matches!(self.0.fill_buf(), Ok([_, ..]))
    }
}
