//! Baseline: a hyper server that answers "OK" to everything and does nothing else.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::driver::{Endpoint, Result};
use crate::server_process::{free_endpoint, wait_until_ready};

/// Flag by which the table runs itself as this server.
pub(crate) const BASELINE_FLAG: &str = "--serve-bare";

/// The baseline as a separate process, like the server that is compared with it.
pub(crate) struct BaselineServer {
    child: Child,
    /// Endpoint at which it answers.
    pub(crate) endpoint: Endpoint,
}

impl BaselineServer {
    pub(crate) fn start() -> Result<Self> {
        let endpoint = free_endpoint()?;
        let mut this = Command::new(std::env::current_exe()?);
        let child = this
            .args([BASELINE_FLAG, &endpoint.address().to_string()])
            .stdin(Stdio::null())
            .spawn()?;
        let mut server = Self { child, endpoint };
        wait_until_ready(&mut server.child, &server.endpoint, "/")?;
        Ok(server)
    }
}

impl Drop for BaselineServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves this address until the process is killed.
pub(crate) fn serve(listen: SocketAddr) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind(listen).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let connection = http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(answer_ok));
                // An error of a client's connection concerns that connection only.
                tokio::spawn(async { connection.await.unwrap_or_default() });
            }
        })
}

async fn answer_ok(_: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"OK"))))
}
