//! Errors that prevent the server from starting or stopping properly, each with a remedy.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::admin;
use crate::http::BaseUrlError;
use crate::outbound::OutboundError;
use crate::runtime::certificate::CertificateError;
use crate::store::{FollowError, StoreError};

/// Reason why the server did not start, or did not stop properly.
#[derive(Debug)]
pub enum ServeError {
    /// The database cannot be opened.
    Store(StoreError),
    /// The server cannot listen on an address of this flag.
    Listen(&'static str, SocketAddr, io::Error),
    /// An address of this flag is occupied by a socket that a supervisor passed on; the second
    /// address is that of the socket.
    TakenByPassedSocket(&'static str, SocketAddr, SocketAddr),
    /// A socket of this name, which a supervisor passed on, cannot be used.
    PassedSocket(String, io::Error),
    /// Mail has a domain, but no address to listen on.
    NoMailAddress,
    /// A certificate cannot be used.
    Certificate(CertificateError),
    /// The base URL that follows from an address is invalid.
    BaseUrl(BaseUrlError),
    /// A file with settings for outgoing messages cannot be used.
    Outbound(OutboundError),
    /// The admin socket cannot be opened.
    Admin(admin::AdminSocketError),
    /// The first project could not be created.
    FirstStart(String),
    /// The system provides no threads or no signals.
    System(io::Error),
    /// A command made the writer panic.
    WriterPanicked,
    /// The machine cannot belong to its cluster. Contains the reason and a remedy.
    Cluster(String),
    /// The database cannot follow the log of the cluster.
    Follow(FollowError),
    /// The machine no longer leads its cluster. Contains the reason.
    NoLongerLeading(String),
    /// A listener panicked.
    ListenerPanicked,
    /// The notifier panicked.
    NotifierPanicked,
    /// Queued changes were not written in time.
    WriterTimeout,
    /// A second signal arrived before the shutdown was complete.
    Interrupted,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Listen(flag, address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                let port = address.port();
                write!(
                    f,
                    "cannot listen on {address}: another process uses port {port}, possibly \
                     another overdue; stop it (as root, `ss -ltnp 'sport = :{port}'` shows it), or \
                     choose another address with {flag}"
                )
            }
            Self::Listen(flag, address, error) => write!(
                f,
                "cannot listen on {address}: {error}; choose another address with {flag}"
            ),
            Self::TakenByPassedSocket(flag, address, passed) => {
                let unit = if *flag == "--smtp-listen" {
                    "overdue-smtp.socket"
                } else {
                    "overdue.socket"
                };
                write!(
                    f,
                    "cannot listen on {address}: {unit} holds {passed} for this service; change \
                     the address there (systemctl edit {unit}; its first lines say how), or turn \
                     it off with systemctl disable --now {unit}"
                )
            }
            Self::PassedSocket(name, error) => {
                write!(
                    f,
                    "the socket \"{name}\" of the supervisor cannot be used: {error}; its unit \
                     must listen for TCP (ListenStream=)"
                )
            }
            Self::NoMailAddress => f.write_str(
                "--ping-email-domain is given, but the server has no address for mail: give \
                 --smtp-listen, or enable overdue-smtp.socket",
            ),
            Self::Certificate(error) => error.fmt(f),
            Self::BaseUrl(error) => error.fmt(f),
            Self::Outbound(error) => error.fmt(f),
            Self::Admin(error) => error.fmt(f),
            Self::FirstStart(reason) => write!(f, "cannot create the first project: {reason}"),
            Self::System(error) => write!(
                f,
                "the system refused a resource that the server needs: {error}"
            ),
            Self::WriterPanicked => f.write_str(
                "the writer panicked; acknowledged changes are on disk; start the server again",
            ),
            Self::Cluster(reason) => f.write_str(reason),
            Self::Follow(error) => error.fmt(f),
            Self::NoLongerLeading(reason) => {
                write!(f, "this machine no longer leads the cluster: {reason}")
            }
            Self::ListenerPanicked => f.write_str(
                "a listener panicked; acknowledged changes are on disk; start the server again",
            ),
            Self::NotifierPanicked => f.write_str(
                "the notifier panicked; waiting alerts are on disk; start the server again",
            ),
            Self::WriterTimeout => f.write_str(
                "the queued changes were not written in time; acknowledged changes are on disk",
            ),
            Self::Interrupted => f.write_str(
                "a second signal came before the server had stopped; acknowledged changes are on \
                 disk",
            ),
        }
    }
}

impl std::error::Error for ServeError {}
