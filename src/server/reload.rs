//! Reloads files at SIGHUP, and certificates also when their files change, so that a renewal or an
//! edit needs no restart. The supervisor is notified when a reload begins and ends
//! (`Type=notify-reload`, systemd.service(5)).

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use super::config_files::{self, ConfigFiles};
use super::notify_supervisor;
use super::signals::HangupCount;
use crate::engine::Handle;
use crate::runtime::blocking_threads::{BlockingTaskError, BlockingThreads};
use crate::runtime::certificate::{Certificate, CertificateReload};

/// Interval between two checks of certificate files.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Files that can be reloaded.
pub(super) struct ReloadableFiles {
    pub(super) certificates: Vec<Certificate>,
    pub(super) declared: Option<ConfigFiles>,
    /// Base of links to pages.
    pub(super) pages: Option<String>,
}

impl ReloadableFiles {
    /// Starts a task that reloads all of them at SIGHUP, and certificates when they change.
    pub(super) fn start_reloading(
        self,
        handle: Handle,
        blocking: Arc<BlockingThreads>,
        mut hangups: HangupCount,
    ) {
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = hangups.changed() => {
                        // The channel closes only when the runtime ends.
                        if changed.is_err() {
                            return;
                        }
                        self.reload(&handle, &blocking).await;
                    }
                    () = sleep(CERTIFICATE_CHECK_INTERVAL) => {
                        self.reload_certificates(&blocking, false).await;
                    }
                }
            }
        });
    }

    async fn reload(&self, handle: &Handle, blocking: &BlockingThreads) {
        // One message: neither part means anything without the other.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => drop(sd_notify::notify(&[NotifyState::Reloading, now])),
            Err(error) => tracing::warn!("cannot notify the supervisor of SIGHUP: {error}"),
        }
        if self.certificates.is_empty() && self.declared.is_none() {
            tracing::info!("SIGHUP changes nothing: flags are only read at startup");
        }
        self.reload_certificates(blocking, true).await;
        if let Some(declared) = &self.declared {
            config_files::apply_declared(handle, declared, self.pages.as_deref()).await;
        }
        notify_supervisor(NotifyState::Ready);
    }

    async fn reload_certificates(&self, blocking: &BlockingThreads, even_if_same: bool) {
        for certificate in &self.certificates {
            let shared = certificate.clone();
            // Too many tasks wait for the disk. The next attempt is soon.
            let Ok(result) = blocking
                .run(move || shared.reload(even_if_same))
                .await
                .map_err(|BlockingTaskError| ())
            else {
                continue;
            };
            log_reload(certificate, &result);
        }
    }
}

fn log_reload(certificate: &Certificate, result: &CertificateReload) {
    match result {
        CertificateReload::Unchanged => {}
        CertificateReload::Replaced => {
            tracing::info!(
                "new connections use the new certificate in {}",
                certificate.chain().display()
            );
        }
        CertificateReload::Failed(error) => {
            tracing::warn!("the previous certificate stays in use: {error}");
        }
    }
}
