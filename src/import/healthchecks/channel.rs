//! What the integrations of a Healthchecks are here: each kind keeps its settings in one text of a form of its own.

use serde_json::Value as Json;
use uuid::Uuid;

use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelKind, ChannelSettings, GivenSettings, Need};
use crate::domain::imported::{ImportedChannel, ImportedSettings};
use crate::domain::moment::Moment;
use crate::domain::project::ChannelName;
use crate::import::environment::Environment;
use crate::import::rows::{Complaint, Row};

/// What becomes of a channel.
pub(super) enum Made {
    /// It comes along.
    Channel(ImportedChannel),
    /// It does not, for this reason.
    Dropped(String),
}

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

/// Reads a row of the table of channels.
pub(super) fn channel(row: &Row, environment: &Environment, now: Moment) -> Result<Made, Complaint> {
    let name = row.text("name")?;
    let wrong = |what: &str| row.wrong(what).of(name);
    let uuid = row.need("code", row.uuid("code"))?;
    let name = ChannelName::parse(name).map_err(|problem| wrong(&format!("name: {problem}")))?;
    let kind = row.text("kind")?;
    // Aliases are words of the command line.
    let Some(kind) = ChannelKind::named(kind).filter(|known| known.name == kind) else {
        return Ok(Made::Dropped(format!("{kind:?} is no kind of channel here")));
    };
    let text = row.text("value")?;
    let json = serde_json::from_str(text).unwrap_or_default();
    let mut given = Given { kind, text, json, environment, pairs: Vec::new(), is_silent: false };
    let is_known = row.has("value");
    if is_known {
        given.read().ok_or_else(|| wrong(&format!("value is not what a channel of kind {} has", kind.name)))?;
    }
    let is_silent = given.is_silent;
    let settings = match given.settings(is_known) {
        Ok(settings) => settings,
        Err(problem) => return Ok(Made::Dropped(format!("{:?}: {problem}", name.as_str()))),
    };
    let disabled = match &settings {
        ImportedSettings::Incomplete { lacks, .. } => Some(format!("imported without {}", lacks.join(", "))),
        ImportedSettings::Whole(_) if row.flag("disabled")?.unwrap_or(false) => Some("it was disabled before it was imported".into()),
        ImportedSettings::Whole(_) if is_silent => Some("it told neither up nor down before it was imported".into()),
        ImportedSettings::Whole(_) if kind.name == "email" && !row.flag("email_verified")?.unwrap_or(true) => {
            Some("its address was not confirmed before it was imported".into())
        }
        ImportedSettings::Whole(_) => None,
    };
    let health = ChannelHealth { disabled: disabled.map(|reason| (now, reason.into())), failing: None };
    Ok(Made::Channel(ImportedChannel { uuid, name, settings, operator: true, health, managed: None }))
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
            "rocketchat" | "googlechat" | "msteamsw" | "victorops" | "spike" | "pagertree" => self.put("url", self.text.to_owned()),
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

    /// The settings, if the kind takes them. Where some are missing, others are tried in their place. Where nothing is known of them, all
    /// that people are to give is.
    fn settings(self, is_known: bool) -> Result<ImportedSettings, String> {
        let Self { kind, pairs, .. } = self;
        let has = |key: &str| pairs.iter().any(|(given, _)| given == key);
        let is_needed = |need: &Need| matches!(need, Need::Required | Need::ToDeliver);
        let mut lacks: Vec<_> =
            kind.fields.iter().filter(|field| is_needed(&field.need) && !has(field.key)).map(|field| field.key).collect();
        if matches!(kind.name, "sms" | "whatsapp") && !has("from") && !has("service") {
            lacks.push("from");
        }
        if !is_known && lacks.is_empty() {
            lacks.extend(kind.example.iter().map(|(key, _)| *key));
        }
        let tried = kind.example.iter().filter(|(key, _)| lacks.contains(key)).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings = ChannelSettings::parse(kind, pairs.iter().cloned().chain(tried)).map_err(|error| error.to_string())?;
        Ok(match lacks.is_empty() {
            true => ImportedSettings::Whole(settings),
            false => ImportedSettings::Incomplete { kind, given: GivenSettings::new(pairs), lacks: lacks.into() },
        })
    }
}

#[cfg(test)]
mod tests;
