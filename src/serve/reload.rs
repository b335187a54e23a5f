//! Certificates are read again when their files change and at SIGHUP: whoever renews them has nothing to restart.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::signals::Hangups;
use crate::blocking_threads::{BlockingThreads, NotDone};
use crate::certificate::{Certificate, Reread};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(30);

/// Looks after these as long as the runtime runs. With none there is nothing to look after.
pub(super) fn keep(certificates: Vec<Certificate>, blocking: Arc<BlockingThreads>, mut hangups: Hangups) {
    if certificates.is_empty() {
        return;
    }
    tokio::spawn(async move {
        loop {
            let asked = tokio::select! {
                heard = hangups.changed() => {
                    // Nobody hears any more only when the runtime ends.
                    if heard.is_err() {
                        return;
                    }
                    true
                }
                () = sleep(LOOK) => false,
            };
            for certificate in &certificates {
                let looking = certificate.clone();
                // Too much waits for the disk: the next look is soon.
                let Ok(reread) = blocking.run(move || looking.reread(asked)).await.map_err(|NotDone| ()) else { continue };
                tell(certificate, &reread);
            }
        }
    });
}

fn tell(certificate: &Certificate, reread: &Reread) {
    match reread {
        Reread::Unchanged => {}
        Reread::Taken => tracing::info!("new connections see the certificate that is in {} now", certificate.chain().display()),
        Reread::Kept(error) => tracing::warn!("the certificate stays the one that was read before: {error}"),
    }
}
