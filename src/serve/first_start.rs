//! What a database without a project gets, the line to paste for the first ping, and the link for the first owner.

use std::path::Path;

use crate::domain::project::{Access, DEFAULT_PING_LOG_LIMIT, KeyLabel, PingKey, ProjectName};
use crate::domain::text::Slug;
use crate::engine::Handle;
use crate::http::{BaseUrl, creating_ping_url};
use crate::manage::{self, ManageError};

/// The project's name.
const PROJECT: &str = "default";

/// Makes a project with a ping key, but no API key (see [protocol](crate::docs::protocol)), and says what to do with it.
///
/// # Errors
/// Why the project or the key could not be made.
pub(super) async fn prepare(handle: &Handle, base_url: &BaseUrl, program: &Path, data: &Path) -> Result<String, String> {
    let ping_key = first_ping_key(handle, ProjectName::parse(PROJECT)?).await.map_err(|error| error.to_string())?;
    let (program, data) = (quoted(&program.to_string_lossy()), quoted(&data.to_string_lossy()));
    let ping_key = PingKey::parse(&ping_key).ok_or("the ping key that was made is none")?;
    let slug = Slug::parse("my-first-check").map_err(|_| "the slug is none")?;
    let url = quoted(&creating_ping_url(base_url, ping_key, slug));
    Ok(format!(
        "\nThis database is new: it has a project \"{PROJECT}\" with a ping key now.\n\n\
         Create a check and ping it:\n\n    curl {url}\n\n\
         Make a key for the API:\n\n    {program} key create --data {data} --project {PROJECT} --access read-write\n\n"
    ))
}

/// What to do as long as there is nobody who may sign in: a link that is drawn anew at each start. `None`: none could be made, which is
/// logged.
pub(super) async fn setup(handle: &Handle, base_url: &BaseUrl) -> Option<String> {
    match manage::user::link(handle, None).await {
        Ok(link) => Some(format!(
            "\nOpen the dashboard and choose a password:\n\n    {}{}\n\n\
             From another device: open /setup at this machine's address and type the code. It is good for 24 hours; `overdue user link` prints \
             a new one.\n\n",
            base_url.as_str(),
            link.path()
        )),
        Err(error) => {
            tracing::warn!("no link to set up the dashboard could be made: {error}");
            None
        }
    }
}

/// Makes the project and its ping key.
async fn first_ping_key(handle: &Handle, name: ProjectName) -> Result<String, ManageError> {
    let project = manage::project::create(handle, name, None, DEFAULT_PING_LOG_LIMIT).await?;
    Ok(manage::key::create(handle, project.id, Access::Ping, KeyLabel::default()).await?.1)
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for (word, wanted) in [("/var/lib/x", "/var/lib/x"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "''"), ("?a=1", "'?a=1'")] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
