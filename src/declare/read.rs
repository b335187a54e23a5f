//! A document becomes what is wanted. Everything that is wrong is told at once; what is wanted is given only if nothing is.

mod channel;
mod object;

use std::collections::BTreeMap;

use super::document::{Document, Node, Problem, Value};
use super::fields::{self, Field};
use super::merge::PARTS;
use super::{MOST_OBJECTS, VERSION};
use crate::domain::edit::{ChannelChoice, Edit};
use crate::domain::given;
use crate::domain::project::{Access, Key, KeyHash, KeyLabel, PingKey, ProjectName, Secret};
use crate::domain::text::{Description, Failures, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;
use crate::domain::user::{Membership, UserName};
use crate::domain::wanted::{ObjectName, Source, Wanted, WantedCheck, WantedGrant, WantedKey, WantedProject, WantedUser, WantedWindow};
use crate::domain::window::GivenTimes;
use crate::password;
use object::{Object, Said};

/// What a document wants there to be.
///
/// # Errors
/// Everything that is wrong in it.
pub fn read(document: &Document) -> Result<Wanted, Vec<Problem>> {
    let mut reader = Reader { problems: Vec::new(), count: 0 };
    let wanted = reader.document(&document.root);
    if reader.count > MOST_OBJECTS {
        reader.problem(&document.root, &[], format!("there are {} objects, and at most {MOST_OBJECTS} are taken", reader.count));
    }
    if reader.problems.is_empty() { Ok(wanted) } else { Err(reader.problems) }
}

struct Reader {
    problems: Vec<Problem>,
    count: usize,
}

/// A path with one more key.
fn below(path: &[String], key: &str) -> Vec<String> {
    path.iter().cloned().chain([key.to_owned()]).collect()
}

impl Reader {
    fn problem(&mut self, node: &Node, path: &[String], reason: impl Into<String>) {
        self.problems.push(Problem { at: Some(node.at.clone()), path: path.to_vec(), reason: reason.into() });
    }

    /// The tables of a table, by key.
    fn tables<'a>(&mut self, node: Option<&'a Node>, path: &[String]) -> Vec<(&'a str, &'a Node, Vec<String>)> {
        let Some(node) = node else { return Vec::new() };
        let Value::Table(entries) = &node.value else {
            self.problem(node, path, format!("it is {}; give a table", node.kind()));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (key, _, inner) in entries {
            let path = below(path, key);
            self.count += 1;
            match &inner.value {
                Value::Table(_) => tables.push((key.as_str(), inner, path)),
                _ => self.problem(inner, &path, format!("it is {}; give a table", inner.kind())),
            }
        }
        tables
    }

    fn document(&mut self, root: &Node) -> Wanted {
        let mut wanted = Wanted::default();
        let head = Object::new(root, None, Vec::new(), fields::ROOT, &[]);
        self.expect_keys(&head, &["project", "user", "defaults"]);
        match self.number(&head, "version") {
            Some(VERSION) => {}
            Some(other) => {
                self.problem(root, &["version".into()], format!("version {other} is not known; this release reads version {VERSION}"));
            }
            None if root.get("version").is_none() => {
                self.problem(root, &[], format!("there is no version; write version = {VERSION} at the top"));
            }
            None => {}
        }
        wanted.source = self.parsed(&head, "source", |text| Source::parse(text).map_err(String::from));
        let defaults = root.get("defaults");
        if let Some(node) = defaults {
            let head = Object::new(node, None, below(&[], "defaults"), &[], &[]);
            self.expect_keys(&head, &["check"]);
            if let Some(check) = node.get("check") {
                let path = below(&head.path, "check");
                let object = Object::new(check, None, path, fields::CHECK_DEFAULTS, &[]);
                // What is wrong here is told here, and not of each check.
                let before = self.problems.len();
                self.expect_keys(&object, &[]);
                self.check_fields(&object, Slug::default(), false);
                if self.problems.len() > before {
                    return wanted;
                }
            }
        }
        let defaults = defaults.and_then(|defaults| defaults.get("check"));
        for (name, node, path) in self.tables(root.get("project"), &below(&[], "project")) {
            wanted.projects.extend(self.project(name, node, path, defaults));
        }
        let mut folded = BTreeMap::new();
        for (name, node, path) in self.tables(root.get("user"), &below(&[], "user")) {
            let Some(user) = self.user(name, node, path.clone()) else { continue };
            if let Some(other) = folded.insert(user.name.folded(), name) {
                self.problem(node, &path, format!("it is the same user as {other:?}: upper and lower case are one"));
            }
            wanted.users.push(user);
        }
        wanted
    }

    fn project(&mut self, name: &str, node: &Node, path: Vec<String>, defaults: Option<&Node>) -> Option<WantedProject> {
        let object = Object::new(node, None, path, fields::PROJECT, &[]);
        self.expect_keys(&object, &PARTS);
        let Ok(name) = ProjectName::parse(name).map_err(|reason| self.problem(node, &object.path, reason)) else { return None };
        let mut project = WantedProject::new(name);
        project.uuid = self.uuid(&object);
        project.was = self.parsed(&object, "was", |text| ProjectName::parse(text).map_err(String::from));
        project.check_limit = self.limit(&object, "check-limit");
        project.ping_log_limit = self.number(&object, "ping-log-limit").and_then(|number| u32::try_from(number).ok());
        let ping_key = self.parsed(&object, "ping-key", |text| ping_key(text).map(|secret| (secret, hint(text))));
        project.keys.extend(ping_key.map(|(secret, hint)| WantedKey { label: KeyLabel::default(), secret, hint }));
        let part = |part: &str| (node.get(part), below(&object.path, part));
        let (channels, at) = part("channel");
        for (key, node, path) in self.tables(channels, &at) {
            project.channels.extend(self.channel(key, node, path));
        }
        let (checks, at) = part("check");
        for (key, node, path) in self.tables(checks, &at) {
            project.checks.extend(self.check(key, node, path, defaults));
        }
        let (windows, at) = part("window");
        for (key, node, path) in self.tables(windows, &at) {
            project.windows.extend(self.window(key, node, path));
        }
        let (keys, at) = part("key");
        for (key, node, path) in self.tables(keys, &at) {
            project.keys.extend(self.key(key, node, path));
        }
        Some(project)
    }

    fn check(&mut self, key: &str, node: &Node, path: Vec<String>, defaults: Option<&Node>) -> Option<WantedCheck> {
        let object = Object::new(node, defaults, path, fields::CHECK, fields::CHECK_DEFAULTS);
        self.expect_keys(&object, &[]);
        let id = ObjectName::new(key);
        // An export may hold texts of an imported check that are over the limits of today.
        let is_known = matches!(id, ObjectName::Uuid(_)) || object.said("uuid").is_some();
        let slug = match &id {
            ObjectName::Uuid(_) => self.parsed(&object, "slug", |text| Ok(Slug::stored(text))).unwrap_or_default(),
            ObjectName::Text(text) => {
                if let Some(Said { node, path }) = object.said("slug") {
                    self.problem(node, &path, "the key of the table is the slug already; leave it out");
                }
                match given::slug(text) {
                    Ok(slug) if !slug.is_empty() => slug,
                    Ok(_) => return self.refused(node, &object.path, "the key of a check is its slug, which is not empty"),
                    Err(reason) => return self.refused(node, &object.path, &format!("the key of a check is its slug: {reason}")),
                }
            }
        };
        let (edit, after, parents) = self.check_fields(&object, slug, is_known);
        let uuid = self.uuid(&object);
        let was = self.parsed(&object, "was", given::slug);
        let paused = self.flag(&object, "paused");
        Some(WantedCheck { id, uuid, was, edit, after, parents, paused })
    }

    /// What a check is set to, or what defaults say of all. `is_known`: its UUID is given, so that it may have had its texts elsewhere.
    fn check_fields(&mut self, object: &Object<'_>, slug: Slug, is_known: bool) -> (Edit, Failures, Vec<ObjectName>) {
        if let (Some(_), Some(Said { node, path })) = (object.said("every"), object.said("schedule"))
            && object.says("every") == object.says("schedule")
        {
            self.problem(node, &path, "a check has either every or schedule; leave one out");
        }
        let has_schedule = object.says("schedule") || object.said("schedule").is_some() && !object.says("every");
        let schedule = self.parsed(object, "schedule", given::schedule).filter(|_| has_schedule);
        let every = self.seconds(object, "every", Seconds::DAY);
        let tz = self.parsed(object, "tz", |text| Timezone::parse(text).map_err(|error| error.to_string()));
        let filter = self.inner(object, "filter");
        let alert = self.inner(object, "alert");
        let mut flag = |key| filter.as_ref().and_then(|filter| self.flag(filter, key)).unwrap_or_default();
        let (subject, body, http_body, default_fail) = (flag("subject"), flag("body"), flag("http-body"), flag("default-fail"));
        let mut words = |key| {
            let text = filter.as_ref().and_then(|filter| self.words(filter, key, ","));
            let text = text.unwrap_or_default();
            let parsed = if is_known { Ok(Keywords::stored(&text)) } else { given::keywords(&text) };
            parsed.unwrap_or_else(|reason| {
                self.problem_of(filter.as_ref().unwrap_or(object), key, &reason);
                Default::default()
            })
        };
        let (start_kw, success_kw, failure_kw) = (words("start"), words("success"), words("failure"));
        let read = |text: &str| if is_known { Ok(Name::stored(text)) } else { given::name(text) };
        let name = self.parsed(object, "name", read).unwrap_or_else(|| Name::stored(slug.as_str()));
        let edit = Edit {
            name: Some(name),
            slug: Some(slug),
            // What is over today's limits may be what a check has had for long.
            tags: Some(Tags::stored(&self.words(object, "tags", " ").unwrap_or_default())),
            desc: Some(Description::stored(self.text(object, "desc").unwrap_or_default())),
            timeout: schedule.is_none().then_some(every),
            grace: Some(self.seconds(object, "grace", Seconds::HOUR)),
            tz: schedule.is_some().then(|| tz.unwrap_or_else(Timezone::utc)),
            schedule,
            manual_resume: Some(self.flag(object, "manual-resume").unwrap_or_default()),
            post_only: Some(self.choice(object, "methods").is_some_and(|method| method == "POST")),
            start_kw: Some(start_kw),
            success_kw: Some(success_kw),
            failure_kw: Some(failure_kw),
            subject: None,
            subject_fail: None,
            filter_subject: Some(subject),
            filter_body: Some(body),
            filter_http_body: Some(http_body),
            filter_default_fail: Some(default_fail),
            channels: Some(self.channels(object)),
        };
        let after = alert.as_ref().and_then(|alert| self.number(alert, "after")).and_then(|number| u64::try_from(number).ok());
        let after = after.and_then(|number| Failures::parse(number).ok()).unwrap_or(Failures::ONE);
        let parents = alert.as_ref().and_then(|alert| self.list(alert, "parents")).unwrap_or_default();
        (edit, after, parents.iter().map(|parent| ObjectName::new(parent)).collect())
    }

    fn channels(&mut self, object: &Object<'_>) -> ChannelChoice {
        match object.said("channels") {
            Some(Said { node: Node { value: Value::Text(text), .. }, .. }) if text == "*" => ChannelChoice::All,
            _ => ChannelChoice::Listed(self.list(object, "channels").unwrap_or_default().into_iter().map(String::into_boxed_str).collect()),
        }
    }

    fn window(&mut self, key: &str, node: &Node, path: Vec<String>) -> Option<WantedWindow> {
        let object = Object::new(node, None, path, fields::WINDOW, &[]);
        self.expect_keys(&object, &[]);
        let id = ObjectName::new(key);
        let name = self.name(&object, &id, given::name)?;
        let uuid = self.uuid(&object);
        let tags = self.words(&object, "tags", " ").unwrap_or_default();
        let tags = given::tags(&tags).map_err(|reason| self.problem_of(&object, "tags", &reason)).ok()?;
        let minutes = self.duration(&object, "for").map(|seconds| seconds.unsigned_abs() / 60);
        let mut text = |key| self.text(&object, key).map(String::from);
        let (from, to, at, tz) = (text("from"), text("to"), text("at"), text("tz"));
        if at.is_none() && from.is_none() {
            return self.refused(node, &object.path, "say when it opens: at = a schedule, or from = a time");
        }
        // A file is read for years, so that a window may lie in the past.
        let then = from.as_deref().and_then(|from| from.parse::<jiff::Timestamp>().ok());
        let then = then.map_or_else(Default::default, |then| crate::domain::moment::Moment::from_micros(then.as_microsecond()));
        match (GivenTimes { from, to, schedule: at, minutes, tz }).read(then) {
            Ok(times) => Some(WantedWindow { id, uuid, name, tags, times }),
            Err(error) => {
                let key = match error.0 {
                    "schedule" => "at",
                    "minutes" => "for",
                    other => other,
                };
                self.problem_of(&object, key, &error.1);
                None
            }
        }
    }

    fn key(&mut self, key: &str, node: &Node, path: Vec<String>) -> Option<WantedKey> {
        let object = Object::new(node, None, path, fields::KEY, &[]);
        self.expect_keys(&object, &[]);
        let label = KeyLabel::parse(key).map_err(|reason| self.problem(node, &object.path, reason)).ok()?;
        if key.is_empty() {
            return self.refused(
                node,
                &object.path,
                "the key of such a table is the label, which is not empty; a ping key without one is ping-key of the project",
            );
        }
        let access = self.choice(&object, "access").and_then(Access::parse);
        if access.is_none() && !object.says("access") {
            self.problem(node, &object.path, "say what it opens: access = \"read-only\", \"read-write\" or \"ping\"");
        }
        if !object.says("value") {
            return self.refused(node, &object.path, "there is no value; give value = { env = \"NAME\" } or { file = \"PATH\" }");
        }
        let access = access?;
        let (secret, hint) = self.parsed(&object, "value", |text| secret(access, text).map(|secret| (secret, hint(text))))?;
        Some(WantedKey { label, secret, hint })
    }

    fn user(&mut self, name: &str, node: &Node, path: Vec<String>) -> Option<WantedUser> {
        let object = Object::new(node, None, path, fields::USER, &[]);
        self.expect_keys(&object, &[]);
        let name = UserName::parse(name).map_err(|reason| self.problem(node, &object.path, reason)).ok()?;
        let disabled = self.flag(&object, "disabled");
        let not_a_hash = || "it is no PHC string of Argon2 whose cost is bounded".to_owned();
        let password = self.parsed(&object, "password-hash", |text| password::parse(text).ok_or_else(not_a_hash));
        let owner = self.flag(&object, "owner").unwrap_or_default();
        let mut projects = Vec::new();
        if let Some(Said { node, path }) = object.said("projects") {
            if owner {
                self.problem(node, &path, "an owner may do everything already; leave it out");
            }
            for (project, _, access) in node.entries() {
                let path = below(&path, project);
                let kind = match &access.value {
                    Value::Text(text) => Membership::parse(text),
                    _ => None,
                };
                match (ProjectName::parse(project), kind) {
                    (Ok(project), Some(kind)) => projects.push((project, kind)),
                    (Err(reason), _) => self.problem(access, &path, reason),
                    (_, None) => self.problem(access, &path, "give member or read-only"),
                }
            }
            if !matches!(node.value, Value::Table(_)) {
                self.problem(node, &path, format!("it is {}; give a table such as {{ Home = \"member\" }}", node.kind()));
            }
        }
        let grant = if owner { WantedGrant::Owner } else { WantedGrant::Projects(projects) };
        Some(WantedUser { name, grant, password, disabled })
    }
}

fn hint(key: &str) -> Box<str> {
    key.chars().take(Key::HINT_LENGTH).collect::<String>().into()
}

fn ping_key(text: &str) -> Result<Secret, String> {
    let wrong = || {
        let most = PingKey::MOST_LENGTH;
        format!("a ping key has 1 to {most} characters: A to Z, a to z, 0 to 9, hyphens and underscores; and it is no UUID")
    };
    PingKey::parse(text).map(Secret::Ping).ok_or_else(wrong)
}

fn secret(access: Access, text: &str) -> Result<Secret, String> {
    let is_key = text.len() == KeyHash::KEY_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic());
    let api_key = || {
        let hash = KeyHash::of(text.as_bytes());
        if is_key { Ok(hash) } else { Err(format!("an API key has {} characters without spaces, drawn at random", KeyHash::KEY_LENGTH)) }
    };
    match access {
        Access::ReadWrite => api_key().map(Secret::ReadWrite),
        Access::ReadOnly => api_key().map(Secret::ReadOnly),
        Access::Ping => ping_key(text),
    }
}

/// The field of a key.
fn field_of(table: &'static [Field], key: &str) -> Option<&'static Field> {
    table.iter().find(|field| field.key == key)
}
