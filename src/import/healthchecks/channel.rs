//! Conversion of the integrations of Healthchecks to channels. Each kind has its own format for its
//! settings.

use serde_json::Value as Json;
use uuid::Uuid;

use super::value_conversion;
use crate::channels;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{
    ChannelKind, ChannelSettings, Requirement, SettingFieldType, SettingsAuthor, SettingsUpdate,
};
use crate::domain::import_contents::{ImportedChannel, ImportedSettings};
use crate::domain::project::ChannelName;
use crate::domain::timestamp::Timestamp;
use crate::import::environment::ServerEnvironment;
use crate::import::source_row::{RowError, SourceRow};

/// Result of converting a channel.
#[derive(Debug)]
pub(super) enum ConvertedChannel {
    /// The channel is imported.
    Imported {
        /// The converted channel.
        channel: ImportedChannel,
        /// Changes without a loss.
        changes: Vec<String>,
    },
    /// The channel is not imported: its kind does not exist here.
    Dropped {
        /// Name of the channel.
        name: String,
        /// UUID of the channel.
        uuid: Uuid,
        /// Kind of the channel in the source.
        kind: String,
        /// Reason in words.
        reason: String,
    },
}

/// Maximum number of characters of the reason why a channel is disabled.
const MAX_REASON_CHARS: usize = 300;

/// Settings of a channel while they are converted.
struct ChannelSettingsBuilder<'a> {
    kind: &'static ChannelKind,
    /// Text of the settings in the source.
    source_text: &'a str,
    /// The text parsed as JSON; `Null` if it is not JSON.
    json: Json,
    environment: &'a ServerEnvironment,
    pairs: Vec<(String, String)>,
    /// True if the channel would send no alerts.
    is_silent: bool,
}

/// Converts a row of the table of channels. Settings that are invalid or unknown here are left out,
/// and the channel is disabled.
pub(super) fn convert_channel(
    row: &SourceRow,
    environment: &ServerEnvironment,
    now: Timestamp,
) -> Result<ConvertedChannel, RowError> {
    let name = row.text("name").unwrap_or_default();
    let uuid = row
        .require("code", row.uuid("code"))
        .map_err(|error| error.with_name(name))?;
    let word = row.text("kind").unwrap_or_default();
    // Aliases exist only on the command line.
    let Some(kind) = channels::find_kind(word).filter(|kind| kind.name == word) else {
        let reason = format!("overdue has no channel of kind {word:?}");
        return Ok(ConvertedChannel::Dropped {
            name: name.into(),
            uuid,
            kind: word.into(),
            reason,
        });
    };
    let mut changes = Vec::new();
    let name = valid_name(name, &mut changes);
    let text = row.text("value").unwrap_or_default();
    let json = serde_json::from_str(text).unwrap_or_default();
    let mut builder = ChannelSettingsBuilder {
        kind,
        source_text: text,
        json,
        environment,
        pairs: Vec::new(),
        is_silent: false,
    };
    let is_shown = row.has_column("value");
    let is_read = is_shown && builder.read_settings().is_some();
    if !is_read {
        builder.pairs.clear();
    }
    let is_silent = is_read && builder.is_silent;
    builder.convert_values(&mut changes);
    let (settings, problem) = builder.finish(is_read);
    let flag = |column: &str, default: bool| row.boolean(column).ok().flatten().unwrap_or(default);
    let disabled = match &settings {
        ImportedSettings::Incomplete { missing, .. } => {
            let problem = problem.or((is_shown && !is_read)
                .then(|| "its settings on the old server cannot be read".into()));
            let problem = problem.map_or(String::new(), |problem| format!(": {problem}"));
            let reason = format!(
                "{}{}{problem}",
                ImportedSettings::DISABLED_REASON_PREFIX,
                missing.join(", ")
            );
            Some(reason.chars().take(MAX_REASON_CHARS).collect())
        }
        ImportedSettings::Complete(_) if flag("disabled", false) => {
            Some("it was already disabled on the old server".to_owned())
        }
        ImportedSettings::Complete(_) if is_silent => {
            Some("it sent no alerts on the old server, neither down nor up".into())
        }
        ImportedSettings::Complete(_) if kind.name == "email" && !flag("email_verified", true) => {
            Some("its address was not confirmed on the old server".into())
        }
        ImportedSettings::Complete(_) => None,
    };
    let health = ChannelHealth {
        disabled: disabled.map(|reason| (now, reason.into())),
        ..ChannelHealth::default()
    };
    // Any user of the old server may have set the URL. The channel gets the rights of one that was
    // created through the API, unless only the operator may create its kind.
    let operator = match &settings {
        ImportedSettings::Complete(settings) => {
            settings.validate_author(SettingsAuthor::Api).is_err()
        }
        ImportedSettings::Incomplete { kind, .. } => kind.operator_only,
    };
    Ok(ConvertedChannel::Imported {
        channel: ImportedChannel {
            uuid,
            name,
            settings,
            set_by_operator: operator,
            health,
            managed_by: None,
        },
        changes,
    })
}

/// Returns a valid name for a channel.
fn valid_name(name: &str, changes: &mut Vec<String>) -> ChannelName {
    ChannelName::parse(name).unwrap_or_else(|problem| {
        changes.push(format!("its name was shortened: {problem}"));
        let cut: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        ChannelName::parse(&cut).unwrap_or_default()
    })
}

impl ChannelSettingsBuilder<'_> {
    /// Converts the settings; `None` if they have another format.
    fn read_settings(&mut self) -> Option<()> {
        match self.kind.name {
            "email" => self.read_receiver("to"),
            "webhook" => self.read_webhook(),
            "slack" | "mattermost" => self.add_setting(
                "url",
                self.text_or_json_value(&["incoming_webhook", "url"])?,
            ),
            "discord" => {
                let url = self.text_or_json_value(&["webhook", "url"])?;
                self.add_setting(
                    "url",
                    url.replacen("https://discordapp.com/", "https://discord.com/", 1),
                )
            }
            "rocketchat" | "googlechat" | "msteamsw" | "victorops" => {
                self.add_setting("url", self.source_text.to_owned())
            }
            // The integration of the other service expects the format of Healthchecks.
            "spike" | "pagertree" => {
                self.add_setting("url", self.source_text.to_owned());
                self.add_setting("integration", "healthchecks".into())
            }
            "telegram" => {
                self.add_setting("chat", self.json_value(&["id"])?);
                self.add_setting(
                    "thread",
                    self.json_value(&["thread_id"]).unwrap_or_default(),
                );
                self.add_from_environment("token", "TELEGRAM_TOKEN")
            }
            "po" => self.read_pushover(),
            "pushbullet" => self.add_setting("token", self.source_text.to_owned()),
            "opsgenie" => {
                self.add_setting("key", self.text_or_json_value(&["key"])?);
                self.add_setting("region", self.json_value(&["region"]).unwrap_or_default())
            }
            // Healthchecks uses the first version of the API, so its keys work with that one.
            "pd" => {
                self.add_setting("key", self.text_or_json_value(&["service_key"])?);
                self.add_setting("api", "v1".into())
            }
            "ntfy" => self.read_ntfy(),
            "gotify" => {
                self.add_setting("url", self.json_value(&["url"])?);
                self.add_setting("token", self.json_value(&["token"])?);
                self.add_setting(
                    "priority",
                    self.json_value(&["priority"]).unwrap_or_default(),
                );
                self.add_setting(
                    "priority-up",
                    self.json_value(&["priority_up"]).unwrap_or_default(),
                )
            }
            "matrix" => {
                self.add_setting("room", self.source_text.to_owned());
                self.add_from_environment("server", "MATRIX_HOMESERVER");
                self.add_from_environment("token", "MATRIX_ACCESS_TOKEN")
            }
            "zulip" => self.read_zulip(),
            "sms" | "whatsapp" | "call" => {
                self.read_receiver("to")?;
                self.add_from_environment("account", "TWILIO_ACCOUNT");
                self.add_from_environment("token", "TWILIO_AUTH");
                if self.kind.name == "whatsapp" {
                    self.add_from_environment("content-down", "WHATSAPP_DOWN_CONTENT_SID");
                    self.add_from_environment("content-up", "WHATSAPP_UP_CONTENT_SID");
                }
                match self
                    .environment
                    .get("TWILIO_MESSAGING_SERVICE_SID")
                    .filter(|_| self.kind.name != "call")
                {
                    Some(service) => self.add_setting("service", service.to_owned()),
                    None => self.add_from_environment("from", "TWILIO_FROM"),
                }
            }
            "signal" => self.read_receiver("to"),
            "trello" => {
                self.add_setting("token", self.json_value(&["token"])?);
                self.add_setting("list", self.json_value(&["list_id"])?);
                self.add_from_environment("key", "TRELLO_APP_KEY")
            }
            "github" => {
                self.add_setting("repo", self.json_value(&["repo"])?);
                let labels: Vec<_> = self
                    .json
                    .get("labels")
                    .and_then(Json::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Json::as_str)
                    .collect();
                self.add_setting("labels", labels.join(","))
            }
            "apprise" => self.add_setting("urls", self.source_text.to_owned()),
            "shell" => {
                self.add_setting("down-command", self.json_value(&["cmd_down"])?);
                self.add_setting("up-command", self.json_value(&["cmd_up"])?)
            }
            "group" => {
                let members = self
                    .source_text
                    .split(',')
                    .map(|uuid| Uuid::try_parse(uuid).ok().map(|uuid| uuid.to_string()));
                self.add_setting("channels", members.collect::<Option<Vec<_>>>()?.join(","))
            }
            // Healthchecks has no further kind with a name that is known here.
            _ => None,
        }
    }

    /// Returns a text or number at a path of the JSON.
    fn json_value(&self, path: &[&str]) -> Option<String> {
        match path
            .iter()
            .try_fold(&self.json, |json, key| json.get(key))?
        {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Returns the text itself, or the value at a path if the text is JSON.
    fn text_or_json_value(&self, path: &[&str]) -> Option<String> {
        if self.source_text.starts_with('{') {
            self.json_value(path)
        } else {
            Some(self.source_text.to_owned())
        }
    }

    /// Sets a key, unless the value is empty.
    fn add_setting(&mut self, key: &str, value: String) -> Option<()> {
        if !value.is_empty() {
            self.pairs.push((key.to_owned(), value));
        }
        Some(())
    }

    /// Sets a key to the value of a variable, which the old server used for all channels.
    fn add_from_environment(&mut self, key: &str, variable: &str) -> Option<()> {
        self.add_setting(
            key,
            self.environment
                .get(variable)
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Converts the recipient and the selection of events.
    fn read_receiver(&mut self, key: &str) -> Option<()> {
        self.add_setting(key, self.text_or_json_value(&["value"])?);
        let is_on = |key: &str, default: bool| {
            self.json
                .get(key)
                .and_then(Json::as_bool)
                .unwrap_or(default)
        };
        // Old text messages were not sent for up unless selected. A call is made for down only.
        let send = match (
            is_on("down", true),
            is_on("up", self.kind.name != "sms" || !self.json.is_object()),
        ) {
            _ if self.kind.name == "call" => "",
            (true, true) => "",
            (true, false) => "down",
            (false, true) => "up",
            (false, false) => {
                self.is_silent = true;
                ""
            }
        };
        self.add_setting("send", send.to_owned())
    }

    fn read_webhook(&mut self) -> Option<()> {
        self.json.as_object()?;
        for event in ["down", "up"] {
            let url = self
                .json_value(&[&format!("url_{event}")])
                .unwrap_or_default();
            if url.is_empty() {
                continue;
            }
            self.add_setting(&format!("{event}-url"), url);
            let method = self
                .json_value(&[&format!("method_{event}")])
                .unwrap_or_else(|| "GET".into());
            // The source stores a body even with a method that sends none.
            if method != "GET" {
                self.add_setting(
                    &format!("{event}-body"),
                    self.json_value(&[&format!("body_{event}")])
                        .unwrap_or_default(),
                );
            }
            self.add_setting(&format!("{event}-method"), method);
            let headers = self
                .json
                .get(format!("headers_{event}"))
                .and_then(Json::as_object)
                .cloned()
                .unwrap_or_default();
            for (name, value) in headers {
                self.add_setting(
                    &format!("{event}-header.{name}"),
                    value.as_str()?.to_owned(),
                );
            }
        }
        Some(())
    }

    fn read_pushover(&mut self) -> Option<()> {
        let mut parts = self.source_text.split('|');
        let user = parts.next()?;
        let down = parts.next()?;
        self.add_setting("user", user.to_owned());
        self.add_setting("priority", down.to_owned());
        self.add_setting("priority-up", parts.next().unwrap_or(down).to_owned());
        self.add_from_environment("token", "PUSHOVER_API_TOKEN")
    }

    fn read_ntfy(&mut self) -> Option<()> {
        let url = self.json_value(&["url"])?;
        let token = self
            .json_value(&["token"])
            .filter(|token| !token.is_empty());
        self.add_setting("topic", self.json_value(&["topic"])?);
        self.add_setting(
            "priority",
            self.json_value(&["priority"]).unwrap_or_default(),
        );
        self.add_setting(
            "priority-up",
            self.json_value(&["priority_up"]).unwrap_or_default(),
        );
        match token {
            Some(token) => self.add_setting("token", token),
            None if url.trim_end_matches('/') == "https://ntfy.sh" => {
                self.add_from_environment("token", "NTFY_SH_TOKEN")
            }
            None => Some(()),
        };
        self.add_setting("url", url)
    }

    fn read_zulip(&mut self) -> Option<()> {
        let address = self.json_value(&["bot_email"])?;
        let site = self.json_value(&["site"]).filter(|site| !site.is_empty());
        let site = site.or_else(|| Some(format!("https://{}", address.rsplit_once('@')?.1)))?;
        self.add_setting("site", site);
        self.add_setting("bot-email", address);
        self.add_setting("key", self.json_value(&["api_key"])?);
        let direct = self.json_value(&["mtype"])? == "private";
        self.add_setting("type", if direct { "direct" } else { "channel" }.to_owned());
        self.add_setting("to", self.json_value(&["to"])?);
        self.add_setting("topic", self.json_value(&["topic"]).unwrap_or_default())
    }

    /// Converts URLs and mail addresses to the format of this server.
    fn convert_values(&mut self, changes: &mut Vec<String>) {
        let mut headers = Vec::new();
        for (key, value) in &mut self.pairs {
            let Some(field) = self.kind.fields.iter().find(|field| field.key == key) else {
                continue;
            };
            let converted = match field.field_type {
                SettingFieldType::Url | SettingFieldType::SecretUrl => {
                    value_conversion::convert_url(value)
                }
                SettingFieldType::MailAddresses(_) => {
                    value_conversion::convert_mail_addresses(value)
                }
                _ => continue,
            };
            if converted.changes.is_empty() {
                continue;
            }
            match (converted.authorization, key.strip_suffix("-url")) {
                (None, _) => {}
                (Some(header), Some(event)) if self.kind.name == "webhook" => {
                    headers.push((format!("{event}-header.Authorization"), header));
                }
                // Only webhooks have headers. For other kinds, the value is reported unchanged as
                // invalid.
                (Some(_), _) => continue,
            }
            changes.extend(
                converted
                    .changes
                    .iter()
                    .map(|change| format!("{key}: {change}")),
            );
            *value = converted.value;
        }
        for (name, header) in headers {
            // An explicit header takes precedence, as in the source.
            if !self
                .pairs
                .iter()
                .any(|(key, _)| key.eq_ignore_ascii_case(&name))
            {
                self.pairs.push((name, header));
            }
        }
    }

    /// Returns the settings, and the reason if some are refused. Refused ones are left out. For
    /// validation, example values stand in for missing settings. If no settings are known, all that
    /// users must give count as missing.
    fn finish(self, is_known: bool) -> (ImportedSettings, Option<String>) {
        let Self { kind, pairs, .. } = self;
        let mut kept = Vec::new();
        let mut refused = Vec::new();
        let mut problem = None;
        for (key, value) in pairs {
            match ChannelSettings::from_incomplete(kind, [(key.as_str(), value.as_str())]) {
                Ok(_) => kept.push((key, value)),
                Err(error) => {
                    refused.extend(
                        kind.fields
                            .iter()
                            .map(|field| field.key)
                            .find(|field| matches_field(&key, field)),
                    );
                    problem.get_or_insert_with(|| error.problem().to_owned());
                }
            }
        }
        let has = |key: &str| kept.iter().any(|(given, _)| given == key);
        let is_needed = |need: &Requirement| {
            matches!(need, Requirement::Required | Requirement::RequiredToDeliver)
        };
        let mut missing: Vec<_> = kind
            .fields
            .iter()
            .filter(|field| is_needed(&field.requirement) && !has(field.key))
            .map(|field| field.key)
            .collect();
        if matches!(kind.name, "sms" | "whatsapp") && !has("from") && !has("service") {
            missing.push("from");
        }
        refused.retain(|key| !missing.contains(key));
        missing.extend(refused);
        let example = || kind.example.iter().map(|(key, _)| *key);
        if !is_known && missing.is_empty() {
            missing.extend(example());
        }
        let tried = kind
            .example
            .iter()
            .filter(|(key, _)| missing.contains(key))
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        match ChannelSettings::parse_any_format(kind, kept.iter().cloned().chain(tried)) {
            Ok(settings) if missing.is_empty() => {
                return (ImportedSettings::Complete(settings), None);
            }
            Ok(_) => {}
            Err(error) => {
                problem.get_or_insert_with(|| error.problem().to_owned());
                if missing.iter().all(|key| kind.is_key_pattern(key)) {
                    missing.extend(example());
                }
                if ChannelSettings::from_incomplete(
                    kind,
                    kept.iter()
                        .map(|(key, value)| (key.as_str(), value.as_str())),
                )
                .is_err()
                {
                    kept.clear();
                }
            }
        }
        (
            ImportedSettings::Incomplete {
                kind,
                settings: SettingsUpdate::replace_all(kept),
                missing: missing.into(),
            },
            problem,
        )
    }
}

/// True if a key is that of a field, or matches the pattern of a field.
fn matches_field(key: &str, field: &str) -> bool {
    field
        .strip_suffix("NAME")
        .map_or(field == key, |prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests;
