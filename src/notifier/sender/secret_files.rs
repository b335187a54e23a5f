//! Secrets of a channel that are stored in files.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::domain::channel::ChannelSettings;

/// Maximum length of a file with a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Maximum time to read such a file.
const SECRET_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings with the secrets from files. The files are read each time, since they may be replaced.
/// A file on a disk that hangs blocks only this message.
pub(in crate::notifier) async fn load_secrets(
    settings: &ChannelSettings,
) -> Result<ChannelSettings, String> {
    let mut settings_with_secrets = settings.clone();
    for (key, path) in settings.secret_files() {
        let path = path.to_owned();
        let read = timeout(
            SECRET_READ_TIMEOUT,
            spawn_blocking(move || read_secret(&path)),
        )
        .await;
        let secret = match read {
            Ok(Ok(Ok(secret))) => secret,
            Ok(Ok(Err(error))) => return Err(format!("the file of {key} cannot be read: {error}")),
            Ok(Err(_)) => return Err(format!("the file of {key} cannot be read")),
            Err(_) => {
                return Err(format!(
                    "the file of {key} cannot be read within {} s",
                    SECRET_READ_TIMEOUT.as_secs()
                ));
            }
        };
        settings_with_secrets = settings_with_secrets
            .with_value(key, secret.trim_end())
            .map_err(|error| error.to_string())?;
    }
    Ok(settings_with_secrets)
}

fn read_secret(path: &str) -> io::Result<String> {
    let mut secret = String::new();
    File::open(path)?
        .take(MAX_SECRET_BYTES)
        .read_to_string(&mut secret)?;
    Ok(secret)
}
