//! What the integrations of a Healthchecks are here: each kind keeps its settings in one text of a form of its own.

use serde_json::Value as Json;
use uuid::Uuid;

use super::convert;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelKind, ChannelSettings, Form, GivenSettings, Maker, Need};
use crate::domain::imported::{ImportedChannel, ImportedSettings};
use crate::domain::moment::Moment;
use crate::domain::project::ChannelName;
use crate::import::environment::Environment;
use crate::import::rows::{Complaint, Row};

/// What becomes of a channel.
#[derive(Debug)]
pub(super) enum Made {
    /// It comes along.
    Channel {
        /// The channel.
        channel: ImportedChannel,
        /// What was changed of it without a loss.
        changes: Vec<String>,
    },
    /// It stays behind: there is no such kind.
    Dropped {
        /// Its name.
        name: String,
        /// Its UUID.
        uuid: Uuid,
        /// Its kind there.
        kind: String,
        /// Why.
        why: String,
    },
}

/// Characters of a reason why a channel is disabled.
const LONGEST_REASON: usize = 300;

/// Settings as they are put together.
struct Given<'a> {
    kind: &'static ChannelKind,
    /// The text as it stands there.
    text: &'a str,
    /// The same as JSON; `Null`: it is none.
    json: Json,
    environment: &'a Environment,
    pairs: Vec<(String, String)>,
    /// Nothing would be told.
    is_silent: bool,
}

/// Reads a row of the table of channels. Settings that cannot be read, or that no channel has here, are left out: the channel is disabled.
pub(super) fn channel(row: &Row, environment: &Environment, now: Moment) -> Result<Made, Complaint> {
    let name = row.text("name").unwrap_or_default();
    let uuid = row.need("code", row.uuid("code")).map_err(|complaint| complaint.of(name))?;
    let word = row.text("kind").unwrap_or_default();
    // Aliases are words of the command line.
    let Some(kind) = ChannelKind::named(word).filter(|known| known.name == word) else {
        let why = format!("{word:?} is no kind of channel here");
        return Ok(Made::Dropped { name: name.into(), uuid, kind: word.into(), why });
    };
    let mut changes = Vec::new();
    let name = fitting(name, &mut changes);
    let text = row.text("value").unwrap_or_default();
    let json = serde_json::from_str(text).unwrap_or_default();
    let mut given = Given { kind, text, json, environment, pairs: Vec::new(), is_silent: false };
    let is_shown = row.has("value");
    let is_read = is_shown && given.read().is_some();
    if !is_read {
        given.pairs.clear();
    }
    let is_silent = is_read && given.is_silent;
    given.convert(&mut changes);
    let (settings, problem) = given.settings(is_read);
    let flag = |column: &str, unless_said: bool| row.flag(column).ok().flatten().unwrap_or(unless_said);
    let disabled = match &settings {
        ImportedSettings::Incomplete { lacks, .. } => {
            let problem = problem.or((is_shown && !is_read).then(|| "its settings there cannot be read".into()));
            let problem = problem.map_or(String::new(), |problem| format!(": {problem}"));
            let reason = format!("{}{}{problem}", ImportedSettings::IMPORTED_WITHOUT, lacks.join(", "));
            Some(reason.chars().take(LONGEST_REASON).collect())
        }
        ImportedSettings::Whole(_) if flag("disabled", false) => Some("it was disabled before it was imported".to_owned()),
        ImportedSettings::Whole(_) if is_silent => Some("it told neither up nor down before it was imported".into()),
        ImportedSettings::Whole(_) if kind.name == "email" && !flag("email_verified", true) => {
            Some("its address was not confirmed before it was imported".into())
        }
        ImportedSettings::Whole(_) => None,
    };
    let health = ChannelHealth { disabled: disabled.map(|reason| (now, reason.into())), ..ChannelHealth::default() };
    // Any user there may have given it: it has the rights of one that was made through the API, unless only the operator makes such.
    let operator = match &settings {
        ImportedSettings::Whole(settings) => settings.allowed_by(Maker::Api).is_err(),
        ImportedSettings::Incomplete { kind, .. } => kind.operators_only,
    };
    Ok(Made::Channel { channel: ImportedChannel { uuid, name, settings, operator, health, managed: None }, changes })
}

/// Returns a name that channels may have.
fn fitting(name: &str, changes: &mut Vec<String>) -> ChannelName {
    ChannelName::parse(name).unwrap_or_else(|problem| {
        changes.push(format!("its name is cut: {problem}"));
        let cut: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        ChannelName::parse(&cut).unwrap_or_default()
    })
}

impl Given<'_> {
    /// Puts the settings together; `None`: what stands there has another form.
    fn read(&mut self) -> Option<()> {
        match self.kind.name {
            "email" => self.receiver("to"),
            "webhook" => self.webhook(),
            "slack" | "mattermost" => self.put("url", self.text_or(&["incoming_webhook", "url"])?),
            "discord" => {
                let url = self.text_or(&["webhook", "url"])?;
                self.put("url", url.replacen("https://discordapp.com/", "https://discord.com/", 1))
            }
            "rocketchat" | "googlechat" | "msteamsw" | "victorops" => self.put("url", self.text.to_owned()),
            // The integration at the other end expects what a Healthchecks sends.
            "spike" | "pagertree" => {
                self.put("url", self.text.to_owned());
                self.put("integration", "healthchecks".into())
            }
            "telegram" => {
                self.put("chat", self.get(&["id"])?);
                self.put("thread", self.get(&["thread_id"]).unwrap_or_default());
                self.known("token", "TELEGRAM_TOKEN")
            }
            "po" => self.pushover(),
            "pushbullet" => self.put("token", self.text.to_owned()),
            "opsgenie" => {
                self.put("key", self.text_or(&["key"])?);
                self.put("region", self.get(&["region"]).unwrap_or_default())
            }
            // It sends by the first version of the API, so its keys are known to work with that one.
            "pd" => {
                self.put("key", self.text_or(&["service_key"])?);
                self.put("api", "v1".into())
            }
            "ntfy" => self.ntfy(),
            "gotify" => {
                self.put("url", self.get(&["url"])?);
                self.put("token", self.get(&["token"])?);
                self.put("priority", self.get(&["priority"]).unwrap_or_default());
                self.put("priority-up", self.get(&["priority_up"]).unwrap_or_default())
            }
            "matrix" => {
                self.put("room", self.text.to_owned());
                self.known("server", "MATRIX_HOMESERVER");
                self.known("token", "MATRIX_ACCESS_TOKEN")
            }
            "zulip" => self.zulip(),
            "sms" | "whatsapp" | "call" => {
                self.receiver("to")?;
                self.known("account", "TWILIO_ACCOUNT");
                self.known("token", "TWILIO_AUTH");
                if self.kind.name == "whatsapp" {
                    self.known("content-down", "WHATSAPP_DOWN_CONTENT_SID");
                    self.known("content-up", "WHATSAPP_UP_CONTENT_SID");
                }
                match self.environment.get("TWILIO_MESSAGING_SERVICE_SID").filter(|_| self.kind.name != "call") {
                    Some(service) => self.put("service", service.to_owned()),
                    None => self.known("from", "TWILIO_FROM"),
                }
            }
            "signal" => self.receiver("to"),
            "trello" => {
                self.put("token", self.get(&["token"])?);
                self.put("list", self.get(&["list_id"])?);
                self.known("key", "TRELLO_APP_KEY")
            }
            "github" => {
                self.put("repo", self.get(&["repo"])?);
                let labels: Vec<_> =
                    self.json.get("labels").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
                self.put("labels", labels.join(","))
            }
            "apprise" => self.put("urls", self.text.to_owned()),
            "shell" => {
                self.put("down-command", self.get(&["cmd_down"])?);
                self.put("up-command", self.get(&["cmd_up"])?)
            }
            "group" => {
                let members = self.text.split(',').map(|uuid| Uuid::try_parse(uuid).ok().map(|uuid| uuid.to_string()));
                self.put("channels", members.collect::<Option<Vec<_>>>()?.join(","))
            }
            // Healthchecks has no other kind that has this name here.
            _ => None,
        }
    }

    /// A text or number in the JSON.
    fn get(&self, path: &[&str]) -> Option<String> {
        match path.iter().try_fold(&self.json, |json, key| json.get(key))? {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The text itself, or if it is JSON what stands there.
    fn text_or(&self, path: &[&str]) -> Option<String> {
        if self.text.starts_with('{') { self.get(path) } else { Some(self.text.to_owned()) }
    }

    /// Sets a key, unless the value is empty.
    fn put(&mut self, key: &str, value: String) -> Option<()> {
        if !value.is_empty() {
            self.pairs.push((key.to_owned(), value));
        }
        Some(())
    }

    /// Sets a key to what the old server knew for all channels.
    fn known(&mut self, key: &str, variable: &str) -> Option<()> {
        self.put(key, self.environment.get(variable).unwrap_or_default().to_owned())
    }

    /// Whom to tell, and of what.
    fn receiver(&mut self, key: &str) -> Option<()> {
        self.put(key, self.text_or(&["value"])?);
        let is_on = |key: &str, unless_said: bool| self.json.get(key).and_then(Json::as_bool).unwrap_or(unless_said);
        // Old text messages told nothing of up unless that was said; a call is made for down only.
        let send = match (is_on("down", true), is_on("up", self.kind.name != "sms" || !self.json.is_object())) {
            _ if self.kind.name == "call" => "",
            (true, true) => "",
            (true, false) => "down",
            (false, true) => "up",
            (false, false) => {
                self.is_silent = true;
                ""
            }
        };
        self.put("send", send.to_owned())
    }

    fn webhook(&mut self) -> Option<()> {
        self.json.as_object()?;
        for way in ["down", "up"] {
            let url = self.get(&[&format!("url_{way}")]).unwrap_or_default();
            if url.is_empty() {
                continue;
            }
            self.put(&format!("{way}-url"), url);
            let method = self.get(&[&format!("method_{way}")]).unwrap_or_else(|| "GET".into());
            // A body is kept there with a method that sends none.
            if method != "GET" {
                self.put(&format!("{way}-body"), self.get(&[&format!("body_{way}")]).unwrap_or_default());
            }
            self.put(&format!("{way}-method"), method);
            let headers = self.json.get(format!("headers_{way}")).and_then(Json::as_object).cloned().unwrap_or_default();
            for (name, value) in headers {
                self.put(&format!("{way}-header.{name}"), value.as_str()?.to_owned());
            }
        }
        Some(())
    }

    fn pushover(&mut self) -> Option<()> {
        let mut parts = self.text.split('|');
        let (user, down) = (parts.next()?, parts.next()?);
        self.put("user", user.to_owned());
        self.put("priority", down.to_owned());
        self.put("priority-up", parts.next().unwrap_or(down).to_owned());
        self.known("token", "PUSHOVER_API_TOKEN")
    }

    fn ntfy(&mut self) -> Option<()> {
        let url = self.get(&["url"])?;
        let token = self.get(&["token"]).filter(|token| !token.is_empty());
        self.put("topic", self.get(&["topic"])?);
        self.put("priority", self.get(&["priority"]).unwrap_or_default());
        self.put("priority-up", self.get(&["priority_up"]).unwrap_or_default());
        match token {
            Some(token) => self.put("token", token),
            None if url.trim_end_matches('/') == "https://ntfy.sh" => self.known("token", "NTFY_SH_TOKEN"),
            None => Some(()),
        };
        self.put("url", url)
    }

    fn zulip(&mut self) -> Option<()> {
        let address = self.get(&["bot_email"])?;
        let site = self.get(&["site"]).filter(|site| !site.is_empty());
        let site = site.or_else(|| Some(format!("https://{}", address.rsplit_once('@')?.1)))?;
        self.put("site", site);
        self.put("bot-email", address);
        self.put("key", self.get(&["api_key"])?);
        let direct = self.get(&["mtype"])? == "private";
        self.put("type", if direct { "direct" } else { "channel" }.to_owned());
        self.put("to", self.get(&["to"])?);
        self.put("topic", self.get(&["topic"]).unwrap_or_default())
    }

    /// Writes URLs and mail addresses as they are written here.
    fn convert(&mut self, changes: &mut Vec<String>) {
        let mut headers = Vec::new();
        for (key, value) in &mut self.pairs {
            let Some(field) = self.kind.fields.iter().find(|field| field.key == key) else { continue };
            let converted = match field.form {
                Form::Url | Form::SecretUrl => convert::url(value),
                Form::MailAddresses(_) => convert::mail(value),
                _ => continue,
            };
            if converted.changes.is_empty() {
                continue;
            }
            match (converted.authorization, key.strip_suffix("-url")) {
                (None, _) => {}
                (Some(header), Some(way)) if self.kind.name == "webhook" => headers.push((format!("{way}-header.Authorization"), header)),
                // Only webhooks have headers: that it cannot be sent is said of it as it is.
                (Some(_), _) => continue,
            }
            changes.extend(converted.changes.iter().map(|change| format!("{key}: {change}")));
            *value = converted.value;
        }
        for (name, header) in headers {
            // A header that was given counts more, as it did there.
            if !self.pairs.iter().any(|(key, _)| key.eq_ignore_ascii_case(&name)) {
                self.pairs.push((name, header));
            }
        }
    }

    /// The settings, and why some of them are refused if some are. Those are left out. Where some are missing, others are tried in their
    /// place. Where nothing is known of them, all that people are to give is missing.
    fn settings(self, is_known: bool) -> (ImportedSettings, Option<String>) {
        let Self { kind, pairs, .. } = self;
        let (mut kept, mut refused, mut problem) = (Vec::new(), Vec::new(), None);
        for (key, value) in pairs {
            match ChannelSettings::stored(kind, [(key.as_str(), value.as_str())]) {
                Ok(_) => kept.push((key, value)),
                Err(error) => {
                    refused.extend(kind.fields.iter().map(|field| field.key).find(|field| belongs(&key, field)));
                    problem.get_or_insert_with(|| error.problem().to_owned());
                }
            }
        }
        let has = |key: &str| kept.iter().any(|(given, _)| given == key);
        let is_needed = |need: &Need| matches!(need, Need::Required | Need::ToDeliver);
        let mut lacks: Vec<_> =
            kind.fields.iter().filter(|field| is_needed(&field.need) && !has(field.key)).map(|field| field.key).collect();
        if matches!(kind.name, "sms" | "whatsapp") && !has("from") && !has("service") {
            lacks.push("from");
        }
        refused.retain(|key| !lacks.contains(key));
        lacks.extend(refused);
        let example = || kind.example.iter().map(|(key, _)| *key);
        if !is_known && lacks.is_empty() {
            lacks.extend(example());
        }
        let tried = kind.example.iter().filter(|(key, _)| lacks.contains(key)).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        match ChannelSettings::unchecked(kind, kept.iter().cloned().chain(tried)) {
            Ok(settings) if lacks.is_empty() => return (ImportedSettings::Whole(settings), None),
            Ok(_) => {}
            Err(error) => {
                problem.get_or_insert_with(|| error.problem().to_owned());
                if lacks.iter().all(|key| kind.is_pattern(key)) {
                    lacks.extend(example());
                }
                if ChannelSettings::stored(kind, kept.iter().map(|(key, value)| (key.as_str(), value.as_str()))).is_err() {
                    kept.clear();
                }
            }
        }
        (ImportedSettings::Incomplete { kind, given: GivenSettings::new(kept), lacks: lacks.into() }, problem)
    }
}

/// True if a key is that of a field, or one of those that its pattern stands for.
fn belongs(key: &str, field: &str) -> bool {
    field.strip_suffix("NAME").map_or(field == key, |prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests;
