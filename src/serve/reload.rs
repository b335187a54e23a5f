//! What was read from files at the start is read again at SIGHUP, and certificates also when their files change: whoever renews or edits
//! them has nothing to restart. The supervisor is told when it begins and when it is done (`Type=notify-reload`, systemd.service(5)).

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use super::declared_files::{self, DeclaredFiles};
use super::notify_supervisor;
use super::signals::HangupCount;
use crate::blocking_threads::{BlockingTaskError, BlockingThreads};
use crate::certificate::{Certificate, CertificateReload};
use crate::engine::Handle;

/// How often the files of certificates are looked at.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// What can be read again.
pub(super) struct ReloadableFiles {
    pub(super) certificates: Vec<Certificate>,
    pub(super) declared: Option<DeclaredFiles>,
    /// What links to pages begin with.
    pub(super) pages: Option<String>,
}

impl ReloadableFiles {
    /// Reads them again as long as the runtime runs.
    pub(super) fn watch(self, handle: Handle, blocking: Arc<BlockingThreads>, mut hangups: HangupCount) {
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    heard = hangups.changed() => {
                        // Nobody hears any more only when the runtime ends.
                        if heard.is_err() {
                            return;
                        }
                        self.reload(&handle, &blocking).await;
                    }
                    () = sleep(CERTIFICATE_CHECK_INTERVAL) => self.reload_certificates(&blocking, false).await,
                }
            }
        });
    }

    async fn reload(&self, handle: &Handle, blocking: &BlockingThreads) {
        // One message: the one means nothing without the other.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => drop(sd_notify::notify(&[NotifyState::Reloading, now])),
            Err(error) => tracing::warn!("the supervisor cannot be told of SIGHUP: {error}"),
        }
        if self.certificates.is_empty() && self.declared.is_none() {
            tracing::info!("SIGHUP changes nothing: flags are read at a start");
        }
        self.reload_certificates(blocking, true).await;
        if let Some(declared) = &self.declared {
            declared_files::apply_declared(handle, declared, self.pages.as_deref()).await;
        }
        notify_supervisor(NotifyState::Ready);
    }

    async fn reload_certificates(&self, blocking: &BlockingThreads, even_if_same: bool) {
        for certificate in &self.certificates {
            let looking = certificate.clone();
            // Too much waits for the disk: the next look is soon.
            let Ok(reread) = blocking.run(move || looking.reload(even_if_same)).await.map_err(|BlockingTaskError| ()) else { continue };
            log_reload(certificate, &reread);
        }
    }
}

fn log_reload(certificate: &Certificate, reread: &CertificateReload) {
    match reread {
        CertificateReload::Unchanged => {}
        CertificateReload::Replaced => {
            tracing::info!("new connections see the certificate that is in {} now", certificate.chain().display())
        }
        CertificateReload::Failed(error) => tracing::warn!("the certificate stays the one that was read before: {error}"),
    }
}
