//! What a server needs to deliver by a kind of channel, beside the settings of the channel.

use super::ChannelSettings;

/// The transports that a server was started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transports {
    /// True if a mail server is set.
    pub mail: bool,
    /// True if commands may be run.
    pub commands: bool,
}

impl ChannelSettings {
    /// The reason why nothing can be delivered with these settings, whatever the receiver answers; `None` if nothing is known that
    /// prevents it. `transports`: those of the server, if they are known.
    pub fn obstacle(&self, transports: Option<Transports>) -> Option<String> {
        let is_without = |has: fn(Transports) -> bool| transports.is_some_and(|transports| !has(transports));
        let obstacle = match self.kind().name {
            "email" if is_without(|transports| transports.mail) => "no mail server is set (--mail-server)",
            "shell" if is_without(|transports| transports.commands) => "--allow-shell is not given",
            _ => return self.lacks().or_else(|| (self.kind().rule)(self).err().map(str::to_owned)),
        };
        Some(obstacle.to_owned())
    }
}
