//! The doors of a server. All of them listen before the first is served. So a start works as a whole, or fails and says why.

use std::net::SocketAddr;
use std::sync::Arc;

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
        let http = bind("--listen", &config.listen).await?;
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
                Some((bind("--smtp-listen", listen).await?, smtp::Config { domain: domain.clone(), certificate }))
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
async fn bind(flag: &'static str, addresses: &[SocketAddr]) -> Result<Vec<Bound>, ServeError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let told = |error| ServeError::Listen(flag, *address, error);
        let listener = TcpListener::bind(address).await.map_err(told)?;
        let bound = listener.local_addr().map_err(told)?;
        listeners.push((listener, bound));
    }
    Ok(listeners)
}

/// The URL of the first address; `localhost` for an address that stands for all addresses of the machine.
fn default_base_url(first: Option<SocketAddr>) -> Result<BaseUrl, BaseUrlError> {
    let first = first.ok_or(BaseUrlError)?;
    if first.ip().is_unspecified() { format!("http://localhost:{}", first.port()).parse() } else { format!("http://{first}").parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
