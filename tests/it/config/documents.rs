//! Random configuration documents. Applying one gives the declared state; an export gives the same
//! document, which creates the same state in another database.

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

fn check(rng: &SeededRng, channels: &Map<String, Value>, earlier: &[String]) -> Value {
    let scheduled = rng.chance(40);
    let keywords = |rng: &SeededRng| {
        rng.optional(30, |rng| {
            rng.pick(&[json!(["a", "b c"]), json!("a, b"), json!("")].each_ref())
                .clone()
        })
    };
    let filter = object([
        ("subject", rng.optional(30, |rng| rng.chance(50).into())),
        ("http-body", rng.optional(30, |rng| rng.chance(50).into())),
        (
            "default-fail",
            rng.optional(30, |rng| rng.chance(50).into()),
        ),
        ("start", keywords(rng)),
        ("success", keywords(rng)),
        ("failure", keywords(rng)),
    ]);
    let names: Vec<_> = channels.keys().cloned().collect();
    let assigned = names
        .iter()
        .filter(|_| rng.chance(50))
        .cloned()
        .collect::<Vec<_>>();
    let parents = earlier
        .iter()
        .filter(|_| rng.chance(30))
        .cloned()
        .collect::<Vec<_>>();
    object([
        ("name", rng.optional(50, |rng| rng.pick(&TEXTS).into())),
        (
            "schedule",
            scheduled.then(|| {
                rng.pick(&["30 3 * * *", "Sat *-*-1..7 02:00", "*/5 * * * *"])
                    .into()
            }),
        ),
        (
            "tz",
            rng.optional(if scheduled { 50 } else { 10 }, |rng| {
                rng.pick(&["UTC", "Europe/Riga"]).into()
            }),
        ),
        (
            "every",
            rng.optional(if scheduled { 0 } else { 70 }, |rng| {
                rng.pick(&[json!(90), json!("1w"), json!("61s"), json!("2h")].each_ref())
                    .clone()
            }),
        ),
        (
            "grace",
            rng.optional(60, |rng| rng.pick(&["1m", "15m", "1h", "365d"]).into()),
        ),
        (
            "tags",
            rng.optional(50, |rng| {
                rng.pick(&[json!(["prod", "db"]), json!(" odd  text "), json!([])].each_ref())
                    .clone()
            }),
        ),
        ("desc", rng.optional(30, |rng| rng.pick(&TEXTS).into())),
        (
            "channels",
            rng.optional(60, |rng| {
                if rng.chance(30) {
                    "*".into()
                } else {
                    assigned.into()
                }
            }),
        ),
        (
            "manual-resume",
            rng.optional(20, |rng| rng.chance(50).into()),
        ),
        (
            "methods",
            rng.optional(20, |rng| rng.pick(&["", "POST"]).into()),
        ),
        ("filter", rng.optional(40, |_| filter)),
        (
            "alert",
            rng.optional(50, |rng| {
                object([
                    (
                        "after",
                        rng.optional(50, |rng| rng.pick(&[1, 2, 100]).into()),
                    ),
                    ("parents", Some(parents.into())),
                ])
            }),
        ),
        ("paused", rng.optional(10, |rng| rng.chance(50).into())),
    ])
}

/// A channel of a random kind with example settings.
fn channel(rng: &SeededRng) -> Value {
    let kinds: Vec<_> = channels::all_kinds()
        .filter(|kind| !kind.example.is_empty() && kind.name != "group")
        .collect();
    let kind = kinds[rng.below(kinds.len() as u64) as usize];
    let mut fields: Map<String, Value> = kind
        .example
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    fields.insert("kind".into(), kind.name.into());
    fields.into()
}

/// Turns one of the channels into a group of some others, if there are others.
fn with_groups(rng: &SeededRng, mut channels: Map<String, Value>) -> Map<String, Value> {
    let names: Vec<_> = channels.keys().cloned().collect();
    if let [group, members @ ..] = names.as_slice()
        && !members.is_empty()
        && rng.chance(50)
    {
        let members = &members[..=rng.below(members.len() as u64) as usize];
        channels.insert(
            group.clone(),
            json!({ "kind": "group", "channels": members }),
        );
    }
    channels
}

fn window(rng: &SeededRng) -> Value {
    let tags = rng.optional(50, |_| json!(["prod"]));
    if rng.chance(50) {
        return object([
            ("at", Some("0 2 * * 6".into())),
            ("for", Some(rng.pick(&["1m", "2h", "7d"]).into())),
            ("tags", tags),
        ]);
    }
    let to = rng.pick(&["2040-01-01T00:00:00Z", "2040-01-01T10:00:00.5+02:00"]);
    object([
        ("from", Some("2039-12-31T00:00:00Z".into())),
        ("to", Some(to.into())),
        ("tags", tags),
    ])
}

fn project(rng: &SeededRng, number: u64) -> Value {
    let channels: Map<_, _> = CHANNELS
        .iter()
        .filter(|_| rng.chance(50))
        .map(|name| ((*name).to_owned(), channel(rng)))
        .collect();
    let channels = with_groups(rng, channels);
    let mut checks = Map::new();
    let mut earlier = Vec::new();
    for slug in SLUGS.iter().filter(|_| rng.chance(60)) {
        checks.insert((*slug).to_owned(), check(rng, &channels, &earlier));
        earlier.push((*slug).to_owned());
    }
    for _ in 0..rng.below(3) {
        // A check without a slug, and two with the same name.
        let uuid = rng.random().uuid().to_string();
        let mut check_without_slug = check(rng, &channels, &earlier);
        if rng.chance(50) {
            check_without_slug["slug"] = "same".into();
        }
        checks.insert(uuid.clone(), check_without_slug);
        earlier.push(uuid);
    }
    let windows: Map<_, _> = ["patch day", "w"]
        .iter()
        .filter(|_| rng.chance(40))
        .map(|name| ((*name).to_owned(), window(rng)))
        .collect();
    let ping_key = |letter: char| letter.to_string().repeat(21) + &number.to_string();
    let key = json!({ "k": { "access": "ping", "value": ping_key('b') } });
    object([
        ("check-limit", rng.optional(20, |_| 50.into())),
        (
            "ping-log-limit",
            rng.optional(40, |rng| rng.pick(&[0, 7, 100]).into()),
        ),
        ("ping-key", rng.optional(40, |_| ping_key('a').into())),
        ("key", rng.optional(30, |_| key)),
        ("channel", Some(channels.into())),
        ("check", Some(checks.into())),
        ("window", Some(windows.into())),
    ])
}

fn document(rng: &SeededRng, source: Option<&str>) -> Value {
    let names: Vec<_> = ["Home", "My \"other\" one", "ž"]
        .into_iter()
        .filter(|_| rng.chance(60))
        .collect();
    let projects: Map<_, _> = names
        .iter()
        .zip(1..)
        .map(|(name, number)| ((*name).to_owned(), project(rng, number)))
        .collect();
    let member: Map<_, _> = names
        .iter()
        .map(|name| {
            (
                (*name).to_owned(),
                rng.pick(&["member", "read-only"]).into(),
            )
        })
        .collect();
    let mut users = json!({ "ann": { "owner": true } });
    if rng.chance(50) {
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
        let rng = SeededRng::seeded(seed);
        let site = ConfigTestEngine::new();
        let text = document(&rng, None).to_string();
        let changes = site
            .apply(&text, ALLOW_NONE)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        assert!(
            changes.iter().all(|line| line.starts_with('+')),
            "seed {seed}: {changes:?}"
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
                .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{written}"));
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
        let rng = SeededRng::seeded(seed);
        let site = ConfigTestEngine::new();
        let first = document(&rng, Some("a"));
        let second = document(&rng, Some("a"));
        site.apply(&first.to_string(), ALLOW_NONE)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{first}"));
        let kept_changes = site.diff(&second.to_string(), ALLOW_NONE);
        // A name may now belong to another kind of channel, which is refused.
        let Ok(kept_changes) = kept_changes else {
            continue;
        };
        assert!(
            kept_changes.iter().all(|line| !line.starts_with('-')),
            "seed {seed}: {kept_changes:?}"
        );
        let error = site
            .apply(&second.to_string(), ALLOW_ALL)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{first}\n{second}"));
        let kept_count = kept_changes
            .iter()
            .filter(|line| line.starts_with('?'))
            .count();
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
