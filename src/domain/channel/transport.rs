//! Server features that a kind of channel needs to deliver, in addition to its settings.

use super::{ChannelKind, ChannelSettings};

/// Means by which a kind of channel delivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// HTTP requests.
    Http,
    /// Mail through the server's relay.
    Mail,
    /// Commands on this machine.
    Command,
}

/// Transports that the server was started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transports {
    /// True if a mail server is set.
    pub mail: bool,
    /// True if commands may be run.
    pub commands: bool,
}

impl ChannelKind {
    /// Reason for which a server with these transports cannot deliver by this kind; `None` if it
    /// can.
    pub fn delivery_obstacle(&self, transports: Transports) -> Option<&'static str> {
        match self.transport {
            Transport::Mail if !transports.mail => Some("no mail server is set (--mail-server)"),
            Transport::Command if !transports.commands => Some("--allow-shell is not given"),
            _ => None,
        }
    }
}

impl ChannelSettings {
    /// Reason for which nothing can be delivered with these settings, whatever the receiver
    /// answers; `None` if no reason is known. `transports` is `None` if the features of the server
    /// are unknown.
    pub fn obstacle(&self, transports: Option<Transports>) -> Option<String> {
        let of_kind = transports.and_then(|transports| self.kind().delivery_obstacle(transports));
        of_kind
            .map(str::to_owned)
            .or_else(|| self.missing_setting())
            .or_else(|| (self.kind().validate)(self).err().map(str::to_owned))
    }
}
