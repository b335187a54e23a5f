//! What was read from files at the start is read again at SIGHUP, and certificates also when their files change: whoever renews or edits
//! them has nothing to restart. The supervisor is told when it begins and when it is done (`Type=notify-reload`, systemd.service(5)).

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use super::declared::{self, DeclaredFiles};
use super::signals::Hangups;
use super::tell_supervisor;
use crate::blocking_threads::{BlockingThreads, NotDone};
use crate::certificate::{Certificate, Reread};
use crate::engine::Handle;

/// How often the files of certificates are looked at.
const LOOK: Duration = Duration::from_secs(30);

/// What can be read again.
pub(super) struct Files {
    pub(super) certificates: Vec<Certificate>,
    pub(super) declared: Option<DeclaredFiles>,
    /// What links to pages begin with.
    pub(super) pages: Option<String>,
}

impl Files {
    /// Reads them again as long as the runtime runs.
    pub(super) fn keep(self, handle: Handle, blocking: Arc<BlockingThreads>, mut hangups: Hangups) {
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
                    () = sleep(LOOK) => self.look_at_certificates(&blocking, false).await,
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
        self.look_at_certificates(blocking, true).await;
        if let Some(declared) = &self.declared {
            declared::apply(handle, declared, self.pages.as_deref()).await;
        }
        tell_supervisor(NotifyState::Ready);
    }

    async fn look_at_certificates(&self, blocking: &BlockingThreads, even_if_same: bool) {
        for certificate in &self.certificates {
            let looking = certificate.clone();
            // Too much waits for the disk: the next look is soon.
            let Ok(reread) = blocking.run(move || looking.reread(even_if_same)).await.map_err(|NotDone| ()) else { continue };
            tell(certificate, &reread);
        }
    }
}

fn tell(certificate: &Certificate, reread: &Reread) {
    match reread {
        Reread::Unchanged => {}
        Reread::Taken => tracing::info!("new connections see the certificate that is in {} now", certificate.chain().display()),
        Reread::Kept(error) => tracing::warn!("the certificate stays the one that was read before: {error}"),
    }
}
