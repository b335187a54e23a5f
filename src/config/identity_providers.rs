//! File of `serve --oidc`: OpenID Connect providers whose users may sign in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::domain::user::external_identity::{
    ClientSecret, GroupRoles, IdentityProvider, MAX_IDENTITY_BYTES,
};

/// Maximum number of providers: see [limits](crate::docs::limits).
const MAX_PROVIDERS: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvidersFile {
    #[serde(default)]
    provider: Vec<ProviderTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProviderTable {
    name: Option<String>,
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    #[serde(default = "default_scopes")]
    scopes: Vec<String>,
    #[serde(default = "default_name_claim")]
    name_claim: String,
    #[serde(default = "default_groups_claim")]
    groups_claim: String,
    #[serde(default)]
    new_users: bool,
    #[serde(default)]
    owners: Vec<String>,
    #[serde(default)]
    members: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    read_only: BTreeMap<String, Vec<String>>,
}

fn default_scopes() -> Vec<String> {
    vec!["profile".into(), "email".into()]
}

fn default_name_claim() -> String {
    "preferred_username".into()
}

fn default_groups_claim() -> String {
    "groups".into()
}

/// Parses the text of a file. `read_secret` returns the content of a file with a secret.
///
/// # Errors
/// A sentence that says what is wrong and where.
pub fn parse_identity_providers(
    text: &str,
    read_secret: impl Fn(&Path) -> Result<String, String>,
) -> Result<Vec<IdentityProvider>, String> {
    let file: ProvidersFile = toml::from_str(text).map_err(|error| error.to_string())?;
    match file.provider.len() {
        0 => return Err("it has no [[provider]]".into()),
        1..=MAX_PROVIDERS => {}
        _ => return Err(format!("it has more than {MAX_PROVIDERS} providers")),
    }
    let mut providers: Vec<IdentityProvider> = Vec::new();
    for table in file.provider {
        let issuer = table.issuer.clone();
        let provider =
            convert(table, &read_secret).map_err(|reason| format!("{issuer}: {reason}"))?;
        if providers
            .iter()
            .any(|other| other.issuer == provider.issuer)
        {
            return Err(format!(
                "{issuer}: there are two providers with this issuer"
            ));
        }
        providers.push(provider);
    }
    Ok(providers)
}

fn convert(
    table: ProviderTable,
    read_secret: impl Fn(&Path) -> Result<String, String>,
) -> Result<IdentityProvider, String> {
    let host = table
        .issuer
        .strip_prefix("https://")
        .or_else(|| table.issuer.strip_prefix("http://"))
        .and_then(|rest| rest.split('/').next())
        .filter(|host| !host.is_empty() && table.issuer.len() <= MAX_IDENTITY_BYTES)
        .ok_or("the issuer must be a URL such as https://id.example.org")?;
    if table.client_id.is_empty() {
        return Err("client-id is empty".into());
    }
    let client_secret = table.client_secret_file.as_deref().map(read_secret);
    let name = table.name.unwrap_or_else(|| host.to_owned());
    Ok(IdentityProvider {
        name: name.into(),
        client_secret: client_secret
            .transpose()?
            .map(|secret| ClientSecret(secret.into())),
        issuer: table.issuer.into(),
        client_id: table.client_id.into(),
        scopes: table.scopes,
        name_claim: table.name_claim.into(),
        groups_claim: table.groups_claim.into(),
        creates_users: table.new_users,
        roles: GroupRoles {
            owners: table.owners,
            members: table.members,
            read_only: table.read_only,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<IdentityProvider>, String> {
        parse_identity_providers(text, |path| match path.to_str() {
            Some("/secret") => Ok("s3cret".into()),
            _ => Err("cannot read it".into()),
        })
    }

    #[test]
    fn a_provider_needs_an_issuer_and_a_client_alone() {
        let providers = parse(
            "[[provider]]\nissuer = \"https://id.example.org/realm\"\nclient-id = \"overdue\"\n",
        );
        let [provider] = <[_; 1]>::try_from(providers.unwrap()).unwrap();
        assert_eq!(
            (
                &*provider.name,
                &*provider.name_claim,
                &*provider.groups_claim
            ),
            ("id.example.org", "preferred_username", "groups")
        );
        assert_eq!(provider.scopes, ["profile", "email"]);
        assert!(!provider.creates_users && provider.roles.is_empty());
        let full = parse(
            "[[provider]]\nname = \"Company\"\nissuer = \"http://id\"\nclient-id = \"a\"\n\
             client-secret-file = \"/secret\"\nscopes = []\nnew-users = true\n\
             owners = [\"admins\"]\nmembers = { ops = [\"web\"] }\nread-only = { all = [\"*\"] }\n",
        )
        .unwrap();
        assert_eq!(full[0].client_secret, Some(ClientSecret("s3cret".into())));
        assert!(full[0].creates_users && full[0].roles.members["ops"] == ["web"]);
        assert!(!format!("{full:?}").contains("s3cret"));
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        let valid = "[[provider]]\nissuer = \"https://id\"\nclient-id = \"a\"\n";
        for (text, expected) in [
            ("", "it has no [[provider]]"),
            (
                "[[provider]]\nissuer = \"https://id\"\n",
                "missing field `client-id`",
            ),
            (
                &format!("{valid}new_users = true\n"),
                "unknown field `new_users`",
            ),
            (&format!("{valid}scopes = 1\n"), "line 4"),
            (
                &format!("{valid}client-secret-file = \"/none\"\n"),
                "https://id: cannot read it",
            ),
            (
                &valid.repeat(2),
                "https://id: there are two providers with this issuer",
            ),
            (
                &valid.replace("https://id", "id"),
                "the issuer must be a URL",
            ),
            (&valid.replace("\"a\"", "\"\""), "client-id is empty"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
