//! Addresses below `/api/overdue/v1`: channels, alerts and windows, which the API of Healthchecks
//! does not cover.

use uuid::Uuid;

use crate::domain::ids::{parse_path_uuid, write_uuid};

/// First segments of these addresses.
pub(crate) const EXTENSION_PATH: &str = "/api/overdue/v1";

/// Resource of such an address. No address ends in a slash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtensionResource {
    /// `/kinds`
    Kinds,
    /// `/channels`
    Channels,
    /// `/channels/<uuid>`
    Channel(Uuid),
    /// `/channels/<uuid>/test`
    Test(Uuid),
    /// `/channels/<uuid>/enable`
    Enable(Uuid),
    /// `/channels/<uuid>/deliveries`
    ChannelDeliveries(Uuid),
    /// `/checks/<uuid>/deliveries`
    CheckDeliveries(Uuid),
    /// `/checks/<uuid>/alerting`
    Alerting(Uuid),
    /// `/deliveries`
    Deliveries,
    /// `/windows`
    Windows,
    /// `/windows/<uuid>`
    Window(Uuid),
}

impl ExtensionResource {
    /// One of each, with its path below [`EXTENSION_PATH`] as a template. Tests compare every other
    /// table of endpoints with this one.
    #[cfg(test)]
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Kinds, "/kinds"),
        (Self::Channels, "/channels"),
        (Self::Channel(Uuid::nil()), "/channels/{uuid}"),
        (Self::Test(Uuid::nil()), "/channels/{uuid}/test"),
        (Self::Enable(Uuid::nil()), "/channels/{uuid}/enable"),
        (
            Self::ChannelDeliveries(Uuid::nil()),
            "/channels/{uuid}/deliveries",
        ),
        (
            Self::CheckDeliveries(Uuid::nil()),
            "/checks/{uuid}/deliveries",
        ),
        (Self::Alerting(Uuid::nil()), "/checks/{uuid}/alerting"),
        (Self::Deliveries, "/deliveries"),
        (Self::Windows, "/windows"),
        (Self::Window(Uuid::nil()), "/windows/{uuid}"),
    ];

    /// Parses the segments after [`EXTENSION_PATH`].
    pub(super) fn parse(segments: &[&str]) -> Option<Self> {
        Some(match segments {
            ["kinds"] => Self::Kinds,
            ["channels"] => Self::Channels,
            ["deliveries"] => Self::Deliveries,
            ["windows"] => Self::Windows,
            ["windows", uuid] => Self::Window(parse_path_uuid(uuid)?),
            ["channels", uuid] => Self::Channel(parse_path_uuid(uuid)?),
            ["channels", uuid, "test"] => Self::Test(parse_path_uuid(uuid)?),
            ["channels", uuid, "enable"] => Self::Enable(parse_path_uuid(uuid)?),
            ["channels", uuid, "deliveries"] => Self::ChannelDeliveries(parse_path_uuid(uuid)?),
            ["checks", uuid, "deliveries"] => Self::CheckDeliveries(parse_path_uuid(uuid)?),
            ["checks", uuid, "alerting"] => Self::Alerting(parse_path_uuid(uuid)?),
            _ => return None,
        })
    }

    pub(super) fn write(self, out: &mut String) {
        let (list, uuid, rest) = match self {
            Self::Kinds => ("/kinds", None, ""),
            Self::Channels => ("/channels", None, ""),
            Self::Deliveries => ("/deliveries", None, ""),
            Self::Windows => ("/windows", None, ""),
            Self::Window(uuid) => ("/windows/", Some(uuid), ""),
            Self::Channel(uuid) => ("/channels/", Some(uuid), ""),
            Self::Test(uuid) => ("/channels/", Some(uuid), "/test"),
            Self::Enable(uuid) => ("/channels/", Some(uuid), "/enable"),
            Self::ChannelDeliveries(uuid) => ("/channels/", Some(uuid), "/deliveries"),
            Self::CheckDeliveries(uuid) => ("/checks/", Some(uuid), "/deliveries"),
            Self::Alerting(uuid) => ("/checks/", Some(uuid), "/alerting"),
        };
        out.extend([EXTENSION_PATH, list]);
        if let Some(uuid) = uuid {
            write_uuid(uuid, out);
        }
        out.push_str(rest);
    }

    /// Accepted methods, as `Allow` lists them.
    pub(crate) fn allowed_methods(self) -> &'static str {
        match self {
            Self::Kinds
            | Self::ChannelDeliveries(_)
            | Self::CheckDeliveries(_)
            | Self::Deliveries => "GET, HEAD, OPTIONS",
            Self::Channels | Self::Windows => "GET, HEAD, POST, OPTIONS",
            Self::Window(_) => "GET, HEAD, DELETE, OPTIONS",
            Self::Channel(_) => "GET, HEAD, PUT, DELETE, OPTIONS",
            Self::Test(_) | Self::Enable(_) => "POST, OPTIONS",
            Self::Alerting(_) => "GET, HEAD, PUT, OPTIONS",
        }
    }
}
