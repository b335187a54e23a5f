//! Proxies for outgoing requests: choice of the proxy for a URL, and connections through it.

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::TLS_TIMEOUT;
use super::error::{SendError, SendStage};
use super::proxy_tunnel;
use super::url::{HostPort, Url};

/// Proxy for requests. It has no `Debug`: the URL of a proxy may contain a password.
#[derive(Clone, Default)]
pub enum ProxyChoice {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say, as with curl.
    #[default]
    Environment,
    /// No proxy.
    None,
    /// This proxy for all requests, except for what `NO_PROXY` names.
    Fixed(ProxyUrl),
}

/// Valid URL of a supported proxy.
#[derive(Clone)]
pub struct ProxyUrl(String);

impl ProxyChoice {
    /// Parses `none`, or the URL of a proxy.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "none" {
            return Ok(Self::None);
        }
        let proxy = Matcher::builder()
            .all(text)
            .build()
            .intercept(&Uri::from_static("http://h/"));
        let is_valid = text.contains("://")
            && proxy.is_some_and(|proxy| Proxy::from_uri(proxy.uri(), None, None).is_some());
        if is_valid {
            Ok(Self::Fixed(ProxyUrl(text.to_owned())))
        } else {
            Err("give none, http://HOST:PORT, socks5://HOST:PORT or socks5h://HOST:PORT")
        }
    }
}

pub(super) struct ProxyMatcher(Option<Matcher>);

/// Proxy for a request.
pub(super) enum Proxy {
    /// HTTP proxy: a tunnel by CONNECT, or for unencrypted requests the whole URL as target.
    Http {
        host_port: HostPort,
        authorization: Option<HeaderValue>,
    },
    Socks5 {
        host_port: HostPort,
        user: Option<(String, String)>,
    },
}

impl ProxyMatcher {
    pub(super) fn new(choice: &ProxyChoice) -> Self {
        Self(match choice {
            ProxyChoice::Environment => Some(Matcher::from_env()),
            ProxyChoice::None => None,
            ProxyChoice::Fixed(ProxyUrl(url)) => {
                let not = ["NO_PROXY", "no_proxy"]
                    .iter()
                    .find_map(|name| std::env::var(name).ok())
                    .unwrap_or_default();
                Some(Matcher::builder().all(url.as_str()).no(not).build())
            }
        })
    }

    /// Proxy for requests to this origin.
    pub(super) fn for_url(&self, url: &Url) -> Result<Option<Proxy>, SendError> {
        let Ok(origin) = Uri::try_from(url.origin()) else {
            return Ok(None);
        };
        let Some(intercept) = self
            .0
            .as_ref()
            .and_then(|matcher| matcher.intercept(&origin))
        else {
            return Ok(None);
        };
        let user = intercept
            .raw_auth()
            .map(|(user, password)| (user.to_owned(), password.to_owned()));
        let scheme_error = || {
            SendError::new(
                SendStage::Proxy,
                "the URL of the proxy in the environment must begin with http://, socks5:// or \
                 socks5h://",
            )
        };
        Proxy::from_uri(intercept.uri(), intercept.basic_auth().cloned(), user)
            .map(Some)
            .ok_or_else(scheme_error)
    }
}

impl Proxy {
    fn from_uri(
        uri: &Uri,
        authorization: Option<HeaderValue>,
        user: Option<(String, String)>,
    ) -> Option<Self> {
        let host_port = |port| HostPort::from_authority(uri.authority()?, port);
        match uri.scheme_str()? {
            "http" => Some(Self::Http {
                host_port: host_port(80)?,
                authorization,
            }),
            "socks5" | "socks5h" => Some(Self::Socks5 {
                host_port: host_port(1080)?,
                user,
            }),
            _ => None,
        }
    }

    pub(super) fn host_port(&self) -> &HostPort {
        match self {
            Self::Http { host_port, .. } | Self::Socks5 { host_port, .. } => host_port,
        }
    }

    /// Error of the connection to the proxy itself.
    pub(super) fn connection_error(&self, error: &SendError) -> SendError {
        SendError::new(
            SendStage::Proxy,
            format!("the proxy cannot be reached: {error}"),
        )
    }

    /// Asks the proxy to connect to a host and port. The stream then belongs to that connection.
    pub(super) async fn tunnel(
        self,
        stream: TcpStream,
        to: &HostPort,
    ) -> Result<TcpStream, SendError> {
        let tunnel = async {
            match &self {
                Self::Http { authorization, .. } => {
                    proxy_tunnel::http_connect(stream, to, authorization.as_ref()).await
                }
                Self::Socks5 { user, .. } => proxy_tunnel::socks5(stream, to, user.as_ref()).await,
            }
        };
        let tunnel = timeout(TLS_TIMEOUT, tunnel)
            .await
            .unwrap_or_else(|_| Err("it does not answer".into()));
        tunnel.map_err(|why| {
            SendError::new(
                SendStage::Proxy,
                format!(
                    "the proxy {} did not connect to {to}: {why}",
                    self.host_port()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_parsed_and_matched() {
        let of = |choice: &str, url: &str| {
            let choice =
                ProxyChoice::parse(choice).unwrap_or_else(|error| panic!("{choice}: {error}"));
            let found = ProxyMatcher::new(&choice)
                .for_url(&Url::parse(url).unwrap())
                .unwrap();
            found.map(|proxy| {
                format!(
                    "{} {}",
                    if matches!(proxy, Proxy::Http { .. }) {
                        "http"
                    } else {
                        "socks"
                    },
                    proxy.host_port()
                )
            })
        };
        assert_eq!(of("none", "https://h/"), None);
        assert_eq!(
            of("http://proxy:3128", "https://h/").as_deref(),
            Some("http proxy:3128")
        );
        assert_eq!(
            of("http://ann:secret@10.0.0.1", "http://h/").as_deref(),
            Some("http 10.0.0.1:80")
        );
        assert_eq!(
            of("socks5://proxy", "http://h/").as_deref(),
            Some("socks proxy:1080")
        );
        assert_eq!(
            of("socks5h://[::1]:9050", "https://h/").as_deref(),
            Some("socks [::1]:9050")
        );
        for wrong in [
            "",
            "proxy:3128",
            "https://proxy",
            "socks4://proxy",
            "http://",
            "ftp://proxy",
        ] {
            assert!(ProxyChoice::parse(wrong).is_err(), "{wrong}");
        }
    }
}
