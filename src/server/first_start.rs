//! First start: the default project, the line to paste for the first ping, and the link for the
//! first owner.

use std::net::SocketAddr;
use std::path::Path;

use crate::domain::formatting::shell_word;
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, KeyAccess, KeyLabel, PingKey, ProjectName};
use crate::domain::text::Slug;
use crate::engine::Handle;
use crate::http::{BaseUrl, creating_ping_url};
use crate::operations::{self, OperationError};

/// Name of the default project.
const DEFAULT_PROJECT: &str = "default";

/// Creates a project with a ping key, but no API key (see [protocol](crate::docs::protocol)), and
/// returns instructions for it.
///
/// # Errors
/// Reason why the project or the key could not be created.
pub(super) async fn create_default_project(
    handle: &Handle,
    base_url: &BaseUrl,
    program: &Path,
    data: &Path,
) -> Result<String, String> {
    let ping_key = create_first_ping_key(handle, ProjectName::parse(DEFAULT_PROJECT)?)
        .await
        .map_err(|error| error.to_string())?;
    let program = shell_word(&program.to_string_lossy());
    let data = shell_word(&data.to_string_lossy());
    let ping_key = PingKey::parse(&ping_key).ok_or("the generated ping key is invalid")?;
    let slug = Slug::parse("my-first-check").map_err(|_| "the example slug is invalid")?;
    let url = shell_word(&creating_ping_url(base_url, ping_key, slug));
    Ok(format!(
        "This database is new. It has a project \"{DEFAULT_PROJECT}\" with a ping key.\n\nCreate a \
         check and ping it:\n\n    curl {url}\n\nCreate a key for the API:\n\n    {program} key \
         create --data {data} --project {DEFAULT_PROJECT} --access read-write\n\n"
    ))
}

/// Access to the dashboard from another device.
pub(super) struct RemoteAccess<'a> {
    /// Base URL of the service.
    pub(super) base_url: &'a BaseUrl,
    /// True if the base URL was configured: it is then the one that others reach.
    pub(super) is_configured: bool,
    /// A listening address, and true if other machines may reach it.
    pub(super) reachable_address: Option<(SocketAddr, bool)>,
    /// True if a supervisor holds the listening sockets.
    pub(super) has_passed_sockets: bool,
}

impl RemoteAccess<'_> {
    fn advice(&self) -> String {
        let base_url = self.base_url.as_str();
        let (scheme, _) = base_url.split_once(':').unwrap_or_default();
        match self.reachable_address {
            _ if self.is_configured && !self.base_url.is_loopback() => {
                format!(
                    "From another device: open {base_url}/setup/ and enter the code, the last part \
                     of that link."
                )
            }
            Some((address, true)) => {
                let host = if address.ip().is_unspecified() {
                    "ADDRESS".into()
                } else {
                    address.ip().to_string()
                };
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host
                };
                let note = if address.ip().is_unspecified() {
                    " (ADDRESS is that of this machine)"
                } else {
                    ""
                };
                format!(
                    "From another device: open {scheme}://{host}:{}/setup/{note} and enter the \
                     code, the last part of that link.",
                    address.port()
                )
            }
            Some((_, false)) if self.has_passed_sockets => {
                "Only this machine can reach it: the supervisor listens on a loopback address. For \
                 the packaged service, the first lines of `systemctl cat overdue.socket` say how \
                 to change that."
                    .into()
            }
            Some((address, false)) => format!(
                "Only this machine can reach it. For other devices, start the server with --listen \
                 0.0.0.0:{port} --base-url {scheme}://ADDRESS:{port}, where ADDRESS is that of \
                 this machine.",
                port = address.port()
            ),
            None => String::new(),
        }
    }
}

/// Returns instructions while there is no user who may sign in: a link that is generated anew at
/// each start. `None` if none could be created, which is logged.
pub(super) async fn create_setup_link(
    handle: &Handle,
    remote_access: &RemoteAccess<'_>,
    program: &Path,
    data: &Path,
) -> Option<String> {
    let program = shell_word(&program.to_string_lossy());
    let data = shell_word(&data.to_string_lossy());
    match operations::user::create_link(handle, None).await {
        Ok(link) => Some(format!(
            "Open the dashboard and choose a password:\n\n    {}{}\n\n{}\nThe code is valid for 24 \
             hours. This command prints a new one:\n\n    {program} user link --data {data}\n\n",
            remote_access.base_url.as_str(),
            link.path(),
            remote_access.advice(),
        )),
        Err(error) => {
            tracing::warn!("cannot create a link to set up the dashboard: {error}");
            None
        }
    }
}

/// Creates the project and its ping key.
async fn create_first_ping_key(
    handle: &Handle,
    name: ProjectName,
) -> Result<String, OperationError> {
    let project = operations::project::create(handle, name, None, DEFAULT_PING_LOG_LIMIT).await?;
    Ok(
        operations::key::create(handle, project.id, KeyAccess::Ping, KeyLabel::default())
            .await?
            .1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_devices_get_an_address_that_listens() {
        for (base_url, is_configured, address, has_passed_sockets, expected) in [
            (
                "https://example.org/checks",
                true,
                ("127.0.0.1:8000", false),
                false,
                "open https://example.org/checks/setup/ and",
            ),
            (
                "http://localhost:8000",
                false,
                ("0.0.0.0:8000", true),
                false,
                "open http://ADDRESS:8000/setup/ (ADDRESS is",
            ),
            (
                "https://[::1]:1",
                false,
                ("[2001:db8::1]:443", true),
                false,
                "open https://[2001:db8::1]:443/setup/ and",
            ),
            (
                "http://127.0.0.1:8080",
                false,
                ("127.0.0.1:8080", false),
                false,
                "--listen 0.0.0.0:8080 --base-url http://ADDRESS:8080,",
            ),
            (
                "http://localhost:8000",
                true,
                ("127.0.0.1:8000", false),
                false,
                "--listen 0.0.0.0:8000 --base-url http://ADDRESS:8000,",
            ),
            (
                "http://127.0.0.1:8000",
                false,
                ("127.0.0.1:8000", false),
                true,
                "systemctl cat overdue.socket",
            ),
        ] {
            let base_url: BaseUrl = base_url.parse().unwrap();
            let address = Some((address.0.parse().unwrap(), address.1));
            let advice = RemoteAccess {
                base_url: &base_url,
                is_configured,
                reachable_address: address,
                has_passed_sockets,
            }
            .advice();
            assert!(advice.contains(expected), "{expected}: {advice}");
        }
    }
}
