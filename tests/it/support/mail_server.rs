//! An SMTP server that records its input and replies by a script.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Differences from a server that accepts everything and offers nothing.
#[derive(Clone, Default)]
pub struct MailScript {
    /// Extensions that EHLO offers, before and after TLS.
    pub offers: Vec<&'static str>,
    pub offers_after_tls: Vec<&'static str>,
    pub tls: Option<TlsAcceptor>,
    /// TLS from the beginning.
    pub implicit: bool,
    /// Replies to lines with this beginning, in place of the usual ones, each with a count. An
    /// empty reply closes the connection.
    pub replies: Vec<(&'static str, &'static str, usize)>,
}

/// The server. It ends with the runtime of the test.
pub struct RecordingMailServer {
    pub address: SocketAddr,
    session: Arc<ScriptedSession>,
}

struct ScriptedSession {
    script: Mutex<MailScript>,
    received: Mutex<Vec<String>>,
}

impl RecordingMailServer {
    pub async fn start(script: MailScript) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let session = Arc::new(ScriptedSession {
            script: Mutex::new(script),
            received: Mutex::default(),
        });
        let server = Self {
            address: listener.local_addr().unwrap(),
            session: Arc::clone(&session),
        };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let session = Arc::clone(&session);
                tokio::spawn(async move {
                    session.record("(connection)");
                    let (tls, implicit) = session.tls();
                    match (tls, implicit) {
                        (Some(tls), true) => session
                            .serve_session(tls.accept(stream).await.ok()?, true, true)
                            .await
                            .map(drop),
                        _ => session.serve(stream).await,
                    }
                });
            }
        });
        server
    }

    /// All received lines, also of messages, and `(connection)` for each connection.
    pub fn received_lines(&self) -> Vec<String> {
        self.session.received.lock().unwrap().clone()
    }

    /// Sets a reply to the next line with this beginning.
    pub fn reply_once(&self, start: &'static str, reply: &'static str) {
        self.session
            .script
            .lock()
            .unwrap()
            .replies
            .push((start, reply, 1));
    }

    pub fn count(&self, start: &str) -> usize {
        self.received_lines()
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }
}

impl ScriptedSession {
    fn tls(&self) -> (Option<TlsAcceptor>, bool) {
        let script = self.script.lock().unwrap();
        (script.tls.clone(), script.implicit)
    }

    fn record(&self, line: &str) {
        self.received.lock().unwrap().push(line.to_owned());
    }

    async fn serve(&self, stream: tokio::net::TcpStream) -> Option<()> {
        if let Some(stream) = self.serve_session(stream, false, true).await? {
            let tls = self.tls().0?;
            self.serve_session(tls.accept(stream).await.ok()?, true, false)
                .await?;
        }
        Some(())
    }

    /// Returns the scripted reply to a line, if there is one left.
    fn scripted_reply(&self, line: &str) -> Option<&'static str> {
        let mut script = self.script.lock().unwrap();
        let reply = script
            .replies
            .iter_mut()
            .find(|(start, _, times)| *times > 0 && line.starts_with(start))?;
        reply.2 -= 1;
        Some(reply.1)
    }

    /// Serves a connection to its end, or to STARTTLS, in which case it returns the connection.
    async fn serve_session<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: T,
        tls: bool,
        greet: bool,
    ) -> Option<Option<T>> {
        let mut stream = BufReader::new(stream);
        if greet {
            let greeting = self.scripted_reply("(greeting)").unwrap_or("220 test");
            stream
                .write_all(format!("{greeting}\r\n").as_bytes())
                .await
                .ok()?;
            stream.flush().await.ok()?;
        }
        let mut data = false;
        let mut login = 0;
        loop {
            let mut line = Vec::new();
            if stream.read_until(b'\n', &mut line).await.ok()? == 0 {
                return None;
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            self.record(line);
            if data && line != "." {
                continue;
            }
            let scripted = self.scripted_reply(if data { "(message)" } else { line });
            let default_reply = match line.split(' ').next().unwrap() {
                "." if data => "250 2.0.0 taken".to_owned(),
                _ if login > 0 => {
                    login -= 1;
                    if login == 0 {
                        "235 welcome".to_owned()
                    } else {
                        "334 UGFzc3dvcmQ6".to_owned()
                    }
                }
                "EHLO" => {
                    let script = self.script.lock().unwrap();
                    let offers = if tls && !script.implicit {
                        &script.offers_after_tls
                    } else {
                        &script.offers
                    };
                    let lines: String = offers
                        .iter()
                        .map(|offer| format!("250-{offer}\r\n"))
                        .collect();
                    format!("250-test\r\n{lines}250 HELP")
                }
                "STARTTLS" => "220 go on".to_owned(),
                "AUTH" if line == "AUTH LOGIN" => {
                    login = 2;
                    "334 VXNlcm5hbWU6".to_owned()
                }
                "AUTH" => "235 welcome".to_owned(),
                "DATA" => "354 go on".to_owned(),
                _ => "250 fine".to_owned(),
            };
            let reply = scripted.map_or(default_reply, str::to_owned);
            data = line == "DATA" && reply.starts_with("354");
            if reply.is_empty() {
                return None;
            }
            stream
                .write_all(format!("{reply}\r\n").as_bytes())
                .await
                .ok()?;
            stream.flush().await.ok()?;
            if line == "STARTTLS" && reply.starts_with("220") {
                return Some(Some(stream.into_inner()));
            }
            if line == "QUIT" {
                return None;
            }
        }
    }
}
