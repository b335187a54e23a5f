//! Files that flags name: with a secret, or with settings in TOML that name files with secrets.

use std::path::Path;

use super::common_args::read_limited;
use crate::store::path_access::explain_path_error;

/// Maximum bytes of a file with a secret: see [limits](crate::docs::limits). No header has more.
const MAX_SECRET_BYTES: u64 = 16_384;

/// Maximum bytes of a file with settings: see [limits](crate::docs::limits).
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Minimum length of the instance key, in bytes: 128 bits in URL-safe characters.
const MIN_INSTANCE_KEY_BYTES: usize = 22;

/// Content of a file, without the white space at its ends.
#[derive(Clone)]
pub(super) struct SecretFileContent(pub(super) Box<[u8]>);

/// Reads a file with a secret.
pub(super) fn read_secret(path: &str) -> Result<SecretFileContent, String> {
    let path = Path::new(path);
    let bytes =
        read_limited(path, MAX_SECRET_BYTES).map_err(|error| explain_path_error(path, &error))?;
    match bytes.trim_ascii() {
        [] => Err(format!("{} is empty", path.display())),
        secret => Ok(SecretFileContent(secret.into())),
    }
}

/// Reads the instance key, which no client may guess.
pub(super) fn read_instance_key(path: &str) -> Result<SecretFileContent, String> {
    let key = read_secret(path)?;
    let is_visible = |byte: &u8| byte.is_ascii_graphic();
    if key.0.len() < MIN_INSTANCE_KEY_BYTES || !key.0.iter().all(is_visible) {
        return Err(format!(
            "{path} must hold at least {MIN_INSTANCE_KEY_BYTES} visible ASCII characters, as from \
             openssl rand -hex 32"
        ));
    }
    Ok(key)
}

/// Reads a secret that has to be text.
fn read_text_secret(path: &Path) -> Result<String, String> {
    let secret = read_secret(&path.to_string_lossy())?;
    String::from_utf8(secret.0.into())
        .map_err(|_| format!("the secret in {} is not UTF-8", path.display()))
}

/// Reads a file with settings. `parse` takes its text and a function that reads the files with
/// secrets that it names.
pub(super) fn read_settings_file<T>(
    path: &str,
    parse: impl FnOnce(&str, fn(&Path) -> Result<String, String>) -> Result<T, String>,
) -> Result<T, String> {
    let path = Path::new(path);
    let bytes =
        read_limited(path, MAX_SETTINGS_BYTES).map_err(|error| explain_path_error(path, &error))?;
    let in_file = |reason: String| format!("{}: {reason}", path.display());
    let text = std::str::from_utf8(&bytes).map_err(|_| in_file("it is not UTF-8".into()))?;
    parse(text, read_text_secret).map_err(in_file)
}
