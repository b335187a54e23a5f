//! Tunnels through proxies: CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC 1928, RFC 1929).

use std::io;
use std::net::IpAddr;

use hyper::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::dial::network_error_text;
use super::url::{Host, HostPort};

/// Maximum length of the head of a response to CONNECT, in bytes.
const MAX_PROXY_HEADER_BYTES: usize = 8 * 1024;

/// Opens a tunnel with CONNECT. An error is a text about the proxy's response.
pub(super) async fn http_connect(
    mut stream: TcpStream,
    to: &HostPort,
    authorization: Option<&HeaderValue>,
) -> Result<TcpStream, String> {
    let mut head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").into_bytes();
    if let Some(authorization) = authorization {
        head.extend([b"Proxy-Authorization: ", authorization.as_bytes(), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    stream
        .write_all(&head)
        .await
        .map_err(|error| network_error_text(&error))?;
    let mut answer = Vec::new();
    // Byte by byte: all data after the head comes from the destination.
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(
            stream
                .read_u8()
                .await
                .map_err(|error| network_error_text(&error))?,
        );
        if answer.len() > MAX_PROXY_HEADER_BYTES {
            return Err("its response is too long".into());
        }
    }
    let line = String::from_utf8_lossy(
        answer
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default(),
    )
    .into_owned();
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(stream),
        Some(407) => Err("it rejected the user or password".into()),
        Some(status) => Err(format!("it answered {status}")),
        None => Err("it does not speak HTTP".into()),
    }
}

/// Opens a tunnel with SOCKS5, with or without a user. An error is a text about the proxy's
/// response.
pub(super) async fn socks5(
    mut stream: TcpStream,
    to: &HostPort,
    user: Option<&(String, String)>,
) -> Result<TcpStream, String> {
    match socks5_handshake(&mut stream, to, user).await {
        Ok(0) => Ok(stream),
        Ok(1) => Err("it failed".into()),
        Ok(2) => Err("its rules forbid it".into()),
        Ok(3) => Err("the network cannot be reached".into()),
        Ok(4) => Err("the host cannot be reached".into()),
        Ok(5) => Err("connection refused".into()),
        Ok(other) => Err(format!("it answered {other}")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err("it rejected the user or password".into())
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err("it does not speak SOCKS5".into())
        }
        Err(error) => Err(network_error_text(&error)),
    }
}

/// Returns the reply code of the connection request; 0 is success.
async fn socks5_handshake(
    stream: &mut TcpStream,
    to: &HostPort,
    user: Option<&(String, String)>,
) -> io::Result<u8> {
    let none = 0;
    let password = 2;
    let method = if user.is_some() { password } else { none };
    stream.write_all(&[5, 1, method]).await?;
    match (stream.read_u8().await?, stream.read_u8().await?) {
        (5, chosen) if chosen == method => {}
        (5, _) => return Err(io::ErrorKind::PermissionDenied.into()),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    if let Some((user, password)) = user {
        stream
            .write_all(&[vec![1], length_prefixed(user)?, length_prefixed(password)?].concat())
            .await?;
        let _version = stream.read_u8().await?;
        if stream.read_u8().await? != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let host = match &to.host {
        Host::Address(IpAddr::V4(address)) => [&[1], address.octets().as_slice()].concat(),
        Host::Address(IpAddr::V6(address)) => [&[4], address.octets().as_slice()].concat(),
        Host::Name(name) => [&[3], length_prefixed(name)?.as_slice()].concat(),
    };
    stream
        .write_all(&[&[5, 1, 0], host.as_slice(), &to.port.to_be_bytes()].concat())
        .await?;
    let _version = stream.read_u8().await?;
    let reply = stream.read_u8().await?;
    let _reserved = stream.read_u8().await?;
    // Bound address of the proxy, which is unused.
    let rest = match stream.read_u8().await? {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    let mut address = vec![0; rest + 2];
    stream.read_exact(&mut address).await?;
    Ok(reply)
}

/// Text after its length in one byte.
fn length_prefixed(text: &str) -> io::Result<Vec<u8>> {
    let length = u8::try_from(text.len()).map_err(io::Error::other)?;
    Ok([&[length], text.as_bytes()].concat())
}
