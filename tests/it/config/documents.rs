//! Random configuration documents: applying one gives the declared state, an export gives the same
//! document, and it creates the same state elsewhere.

use overdue::channels;
use overdue::config;
use serde_json::{Map, Value, json};

use super::{ALLOW_ALL, ALLOW_NONE, ConfigTestEngine};
use crate::support::seeded_rng::SeededRng;

/// Number of documents in a test run.
const DOCUMENTS: u64 = 60;

const SLUGS: [&str; 6] = ["backup", "router", "a", "b-2", "under_score", "x"];
const CHANNELS: [&str; 4] = ["phone", "on call", "Žofie \"q\"", "a.b"];
const TEXTS: [&str; 7] = [
    "",
    "x",
    "Nightly backup",
    "ž\u{1F4BE} \"q\" \\ '",
    "line\nline\ttab",
    "# no comment",
    "{ env = \"X\" }",
];

fn object(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    Value::Object(
        fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
    )
}

fn check(dice: &SeededRng, channels: &Map<String, Value>, before: &[String]) -> Value {
    let scheduled = dice.chance(40);
    let words = |dice: &SeededRng| {
        dice.optional(30, |dice| {
            dice.pick(&[json!(["a", "b c"]), json!("a, b"), json!("")].each_ref())
                .clone()
        })
    };
    let filter = object([
        ("subject", dice.optional(30, |dice| dice.chance(50).into())),
        (
            "http-body",
            dice.optional(30, |dice| dice.chance(50).into()),
        ),
        (
            "default-fail",
            dice.optional(30, |dice| dice.chance(50).into()),
        ),
        ("start", words(dice)),
        ("success", words(dice)),
        ("failure", words(dice)),
    ]);
    let names: Vec<_> = channels.keys().cloned().collect();
    let assigned = names
        .iter()
        .filter(|_| dice.chance(50))
        .cloned()
        .collect::<Vec<_>>();
    let parents = before
        .iter()
        .filter(|_| dice.chance(30))
        .cloned()
        .collect::<Vec<_>>();
    object([
        ("name", dice.optional(50, |dice| dice.pick(&TEXTS).into())),
        (
            "schedule",
            scheduled.then(|| {
                dice.pick(&["30 3 * * *", "Sat *-*-1..7 02:00", "*/5 * * * *"])
                    .into()
            }),
        ),
        (
            "tz",
            dice.optional(if scheduled { 50 } else { 10 }, |dice| {
                dice.pick(&["UTC", "Europe/Riga"]).into()
            }),
        ),
        (
            "every",
            dice.optional(if scheduled { 0 } else { 70 }, |dice| {
                dice.pick(&[json!(90), json!("1w"), json!("61s"), json!("2h")].each_ref())
                    .clone()
            }),
        ),
        (
            "grace",
            dice.optional(60, |dice| dice.pick(&["1m", "15m", "1h", "365d"]).into()),
        ),
        (
            "tags",
            dice.optional(50, |dice| {
                dice.pick(&[json!(["prod", "db"]), json!(" odd  text "), json!([])].each_ref())
                    .clone()
            }),
        ),
        ("desc", dice.optional(30, |dice| dice.pick(&TEXTS).into())),
        (
            "channels",
            dice.optional(60, |dice| {
                if dice.chance(30) {
                    "*".into()
                } else {
                    assigned.into()
                }
            }),
        ),
        (
            "manual-resume",
            dice.optional(20, |dice| dice.chance(50).into()),
        ),
        (
            "methods",
            dice.optional(20, |dice| dice.pick(&["", "POST"]).into()),
        ),
        ("filter", dice.optional(40, |_| filter)),
        (
            "alert",
            dice.optional(50, |dice| {
                object([
                    (
                        "after",
                        dice.optional(50, |dice| dice.pick(&[1, 2, 100]).into()),
                    ),
                    ("parents", Some(parents.into())),
                ])
            }),
        ),
        ("paused", dice.optional(10, |dice| dice.chance(50).into())),
    ])
}

/// A channel of a random kind with example settings.
fn channel(dice: &SeededRng) -> Value {
    let kinds: Vec<_> = channels::all_kinds()
        .filter(|kind| !kind.example.is_empty() && kind.name != "group")
        .collect();
    let kind = kinds[dice.below(kinds.len() as u64) as usize];
    let mut fields: Map<String, Value> = kind
        .example
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    fields.insert("kind".into(), kind.name.into());
    fields.into()
}

/// Turns one of the channels into a group of some others, if there are others.
fn with_groups(dice: &SeededRng, mut channels: Map<String, Value>) -> Map<String, Value> {
    let names: Vec<_> = channels.keys().cloned().collect();
    if let [group, members @ ..] = names.as_slice()
        && !members.is_empty()
        && dice.chance(50)
    {
        let members = &members[..=dice.below(members.len() as u64) as usize];
        channels.insert(
            group.clone(),
            json!({ "kind": "group", "channels": members }),
        );
    }
    channels
}

fn window(dice: &SeededRng) -> Value {
    let tags = dice.optional(50, |_| json!(["prod"]));
    if dice.chance(50) {
        return object([
            ("at", Some("0 2 * * 6".into())),
            ("for", Some(dice.pick(&["1m", "2h", "7d"]).into())),
            ("tags", tags),
        ]);
    }
    let to = dice.pick(&["2040-01-01T00:00:00Z", "2040-01-01T10:00:00.5+02:00"]);
    object([
        ("from", Some("2039-12-31T00:00:00Z".into())),
        ("to", Some(to.into())),
        ("tags", tags),
    ])
}

fn project(dice: &SeededRng, number: u64) -> Value {
    let channels: Map<_, _> = CHANNELS
        .iter()
        .filter(|_| dice.chance(50))
        .map(|name| ((*name).to_owned(), channel(dice)))
        .collect();
    let channels = with_groups(dice, channels);
    let mut checks = Map::new();
    let mut before = Vec::new();
    for slug in SLUGS.iter().filter(|_| dice.chance(60)) {
        checks.insert((*slug).to_owned(), check(dice, &channels, &before));
        before.push((*slug).to_owned());
    }
    for _ in 0..dice.below(3) {
        // A check without a slug, and two with the same name.
        let uuid = dice.random().uuid().to_string();
        let mut nameless = check(dice, &channels, &before);
        if dice.chance(50) {
            nameless["slug"] = "twin".into();
        }
        checks.insert(uuid.clone(), nameless);
        before.push(uuid);
    }
    let windows: Map<_, _> = ["patch day", "w"]
        .iter()
        .filter(|_| dice.chance(40))
        .map(|name| ((*name).to_owned(), window(dice)))
        .collect();
    let ping_key = |letter: char| letter.to_string().repeat(21) + &number.to_string();
    let key = json!({ "k": { "access": "ping", "value": ping_key('b') } });
    object([
        ("check-limit", dice.optional(20, |_| 50.into())),
        (
            "ping-log-limit",
            dice.optional(40, |dice| dice.pick(&[0, 7, 100]).into()),
        ),
        ("ping-key", dice.optional(40, |_| ping_key('a').into())),
        ("key", dice.optional(30, |_| key)),
        ("channel", Some(channels.into())),
        ("check", Some(checks.into())),
        ("window", Some(windows.into())),
    ])
}

fn document(dice: &SeededRng, source: Option<&str>) -> Value {
    let names: Vec<_> = ["Home", "My \"other\" one", "ž"]
        .into_iter()
        .filter(|_| dice.chance(60))
        .collect();
    let projects: Map<_, _> = names
        .iter()
        .zip(1..)
        .map(|(name, number)| ((*name).to_owned(), project(dice, number)))
        .collect();
    let member: Map<_, _> = names
        .iter()
        .map(|name| {
            (
                (*name).to_owned(),
                dice.pick(&["member", "read-only"]).into(),
            )
        })
        .collect();
    let mut users = json!({ "ann": { "owner": true } });
    if dice.chance(50) {
        users["bob"] = json!({ "projects": member });
    }
    object([
        ("version", Some(1.into())),
        ("source", source.map(Into::into)),
        ("project", Some(projects.into())),
        ("user", Some(users)),
    ])
}

#[test]
fn an_export_gives_the_declared_document() {
    for seed in 1..=DOCUMENTS {
        let dice = SeededRng::seeded(seed);
        let site = ConfigTestEngine::new();
        let text = document(&dice, None).to_string();
        let done = site
            .apply(&text, ALLOW_NONE)
            .unwrap_or_else(|told| panic!("seed {seed}: {told}\n{text}"));
        assert!(
            done.iter().all(|line| line.starts_with('+')),
            "seed {seed}: {done:?}"
        );
        assert_eq!(
            site.apply(&text, ALLOW_NONE),
            Ok(Vec::new()),
            "seed {seed}: again\n{text}"
        );
        let objects = site.export();
        let toml = config::to_toml(&objects, &["a comment"]);
        let json = config::to_json(&objects).to_string();
        for written in [&toml, &json] {
            assert_eq!(
                site.diff(written, ALLOW_NONE),
                Ok(Vec::new()),
                "seed {seed}: the same server\n{written}"
            );
            let other = ConfigTestEngine::new();
            let applied = other
                .apply(written, ALLOW_NONE)
                .unwrap_or_else(|told| panic!("seed {seed}: {told}\n{written}"));
            assert!(
                applied.iter().all(|line| line.starts_with('+')),
                "seed {seed}: {applied:?}"
            );
            assert_eq!(
                other.export(),
                objects,
                "seed {seed}: another server\n{written}"
            );
        }
    }
}

#[test]
fn a_document_replaces_another() {
    for seed in 1..=DOCUMENTS {
        let dice = SeededRng::seeded(seed);
        let site = ConfigTestEngine::new();
        let first = document(&dice, Some("a"));
        let second = document(&dice, Some("a"));
        site.apply(&first.to_string(), ALLOW_NONE)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{first}"));
        let without = site.diff(&second.to_string(), ALLOW_NONE);
        // A name may now belong to another kind of channel, which is refused.
        let Ok(without) = without else { continue };
        assert!(
            without.iter().all(|line| !line.starts_with('-')),
            "seed {seed}: {without:?}"
        );
        let error = site
            .apply(&second.to_string(), ALLOW_ALL)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{first}\n{second}"));
        let kept_count = without.iter().filter(|line| line.starts_with('?')).count();
        assert_eq!(
            error.iter().filter(|line| line.starts_with('-')).count(),
            kept_count,
            "seed {seed}: {error:?}"
        );
        assert_eq!(
            site.apply(&second.to_string(), ALLOW_ALL),
            Ok(Vec::new()),
            "seed {seed}: {second}"
        );
    }
}
