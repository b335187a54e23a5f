//! What a server needs to deliver by a kind of channel, beside the settings of the channel.

use super::{ChannelKind, ChannelSettings};

/// The transports that a server was started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transports {
    /// True if a mail server is set.
    pub mail: bool,
    /// True if commands may be run.
    pub commands: bool,
}

impl ChannelKind {
    /// The reason why a server with these transports delivers nothing by this kind; `None`: it has what the kind needs.
    pub fn delivery_obstacle(&self, transports: Transports) -> Option<&'static str> {
        match self.name {
            "email" if !transports.mail => Some("no mail server is set (--mail-server)"),
            "shell" if !transports.commands => Some("--allow-shell is not given"),
            _ => None,
        }
    }
}

impl ChannelSettings {
    /// The reason why nothing can be delivered with these settings, whatever the receiver answers; `None` if nothing is known that
    /// prevents it. `transports`: those of the server, if they are known.
    pub fn obstacle(&self, transports: Option<Transports>) -> Option<String> {
        let of_kind = transports.and_then(|transports| self.kind().delivery_obstacle(transports));
        of_kind.map(str::to_owned).or_else(|| self.missing_setting()).or_else(|| (self.kind().validate)(self).err().map(str::to_owned))
    }
}
