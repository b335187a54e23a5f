//! Uses of channel kinds, by which a page of kinds is grouped.

/// Use of a channel kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ChannelPurpose {
    /// Kinds that most installations begin with.
    Common,
    /// Chats of teams.
    Chat,
    /// Notifications on a phone, messages and calls.
    Phone,
    /// Services that keep incidents or tasks.
    Incidents,
    /// Other programs and channels.
    Other,
}

impl ChannelPurpose {
    /// Every purpose, in the order of pages.
    pub const ALL: [Self; 5] = [
        Self::Common,
        Self::Chat,
        Self::Phone,
        Self::Incidents,
        Self::Other,
    ];

    /// Heading of the kinds with this purpose.
    pub fn title(self) -> &'static str {
        match self {
            Self::Common => "Common",
            Self::Chat => "Chat",
            Self::Phone => "Phone",
            Self::Incidents => "Incidents and tasks",
            Self::Other => "Other",
        }
    }
}
