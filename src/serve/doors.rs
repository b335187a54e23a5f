//! The doors of a server. All of them listen before the first is served. So a start works as a whole, or fails and says why.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{CertificateFiles, Config, Mail, ServeError};
use crate::admin;
use crate::blocking_threads::BlockingThreads;
use crate::connection_threads::ConnectionThreads;
use crate::engine::Handle;
use crate::http::{self, BaseUrl, BaseUrlError};
use crate::smtp::{self, Certificate};

/// Connections that may wait to be accepted. Beyond it a client tries again after a second. The system may hold the number down
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// A listener with the address that it has, port 0 replaced.
type Bound = (TcpListener, SocketAddr);

/// Doors that listen but do not answer yet.
pub(super) struct Doors {
    http: Vec<Bound>,
    /// Where the service is reached.
    pub(super) base_url: BaseUrl,
    mail: Option<(Vec<Bound>, smtp::Config)>,
}

impl Doors {
    /// Listens wherever the configuration says. The admin socket is not among these: whoever binds it has the database open.
    pub(super) async fn bind(config: &Config) -> Result<Self, ServeError> {
        let http = bind("--listen", &config.listen)?;
        let base_url = match &config.base_url {
            Some(url) => url.clone(),
            None => {
                let first = http.first().map(|(_, address)| *address);
                let url = default_base_url(first).map_err(ServeError::BaseUrl)?;
                if first.is_some_and(|first| first.ip().is_unspecified()) {
                    tracing::warn!(
                        "URLs in answers begin with {}, which only this machine reaches: say with --base-url what others reach",
                        url.as_str()
                    );
                }
                url
            }
        };
        let mail = match &config.mail {
            Some(Mail { listen, domain, certificate }) => {
                let read = |files: &CertificateFiles| Certificate::read(&files.chain, &files.key);
                let certificate = certificate.as_ref().map(read).transpose().map_err(ServeError::Certificate)?;
                Some((bind("--smtp-listen", listen)?, smtp::Config { domain: domain.clone(), certificate }))
            }
            None => None,
        };
        Ok(Self { http, base_url, mail })
    }

    /// Answers until `stopped` holds true and each door has drained.
    pub(super) fn serve(
        self,
        admin: admin::Socket,
        handle: &Handle,
        config: Config,
        threads: ConnectionThreads,
        blocking: BlockingThreads,
        stopped: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let Config { trusted_proxies, api_rate, connections_per_address, .. } = config;
        let mut running = JoinSet::new();
        let config = http::Config { base_url: self.base_url, trusted_proxies, api_rate, connections_per_address };
        let (blocking, threads) = (Arc::new(blocking), Arc::new(threads));
        let server = http::Server::new(handle.clone(), Arc::clone(&blocking), config);
        for (listener, address) in self.http {
            tracing::info!(%address, "listening for HTTP");
            running.spawn(server.clone().serve(listener, Arc::clone(&threads), stopped.clone()));
        }
        if let Some((listeners, config)) = self.mail {
            let server = smtp::Server::new(handle.clone(), blocking, config);
            for (listener, address) in listeners {
                tracing::info!(%address, "listening for mail");
                running.spawn(server.clone().serve(listener, stopped.clone()));
            }
        }
        running.spawn(admin.serve(handle.clone(), stopped.clone()));
        running
    }
}

/// Listens on the addresses of a flag.
fn bind(flag: &'static str, addresses: &[SocketAddr]) -> Result<Vec<Bound>, ServeError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let told = |error| ServeError::Listen(flag, *address, error);
        let listener = open(*address).map_err(told)?;
        let bound = listener.local_addr().map_err(told)?;
        listeners.push((listener, bound));
    }
    Ok(listeners)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart does not wait until old connections are forgotten. On Windows it would mean that another may listen, too.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The URL of the first address; `localhost` for an address that stands for all addresses of the machine.
fn default_base_url(first: Option<SocketAddr>) -> Result<BaseUrl, BaseUrlError> {
    let first = first.ok_or(BaseUrlError)?;
    if first.ip().is_unspecified() { format!("http://localhost:{}", first.port()).parse() } else { format!("http://{first}").parse() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_burst_of_connections_waits_to_be_accepted() {
        let most: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
        let (_listener, address) = bind("--listen", &["127.0.0.1:0".parse().unwrap()]).unwrap().pop().unwrap();
        let mut waiting = Vec::new();
        for number in 0..most.min(400) {
            let connected = timeout(Duration::from_millis(900), TcpStream::connect(address)).await;
            waiting.push(connected.unwrap_or_else(|_| panic!("number {number} waits")).unwrap());
        }
    }

    #[test]
    fn the_base_url_follows_from_the_first_address() {
        for (address, url) in [
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("0.0.0.0:80", "http://localhost:80"),
            ("[::]:8000", "http://localhost:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
        ] {
            assert_eq!(default_base_url(address.parse().ok()).unwrap().as_str(), url);
        }
    }
}
