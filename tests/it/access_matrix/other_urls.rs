//! URLs outside the tables of endpoints and pages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{CREDENTIALS, Credential, Fixture, Objects, assert_hides_objects};

/// Clients that a URL is open to.
enum Audience {
    /// Everybody. What the URL shows is public, or the URL itself is the secret.
    Everybody,
    /// Clients with one of these credentials. The others get this status.
    Only(&'static [Credential], u16),
    /// Nobody: the URL is wrong, or its feature is not in use.
    Nobody(u16),
}

/// Variants of `Route` with a URL of each, and its audience.
fn urls(
    fixture: &Fixture,
    objects: &Objects,
    badges: &Value,
) -> Vec<(&'static str, String, Audience)> {
    let server = &fixture.server;
    let check = &objects.check;
    let main = &server.main;
    let project = &objects.project;
    let badge = badges["badges"]["*"]["json"].as_str().unwrap();
    let badge = badge.strip_prefix(&server.base).unwrap().to_owned();
    let forged_badge = badge.replacen("/badge/", "/badge/x", 1);
    let slug = super::PRIVATE_NAME;
    let token: &[Credential] = &[Credential::MetricsToken];
    vec![
        ("Ping", format!("/ping/{check}"), Audience::Everybody),
        (
            "Ping",
            format!("/ping/{}/{slug}", main.ping_key),
            Audience::Everybody,
        ),
        (
            "Ping",
            format!("/ping/{}/{slug}", fixture.other.ping_key),
            Audience::Nobody(404),
        ),
        (
            "Ping",
            format!("/ping/{}/{slug}", main.read_write_key),
            Audience::Nobody(404),
        ),
        (
            "OpenApi",
            "/api/v3/openapi.json".into(),
            Audience::Everybody,
        ),
        ("Badge", badge, Audience::Everybody),
        ("Badge", forged_badge, Audience::Nobody(404)),
        (
            "Unsubscribe",
            format!("/unsubscribe/{}/x/", objects.channel),
            Audience::Nobody(404),
        ),
        ("Health", "/healthz".into(), Audience::Everybody),
        ("Metrics", "/metrics".into(), Audience::Only(token, 401)),
        (
            "AllChecksMetrics",
            "/metrics/checks".into(),
            Audience::Only(token, 401),
        ),
        (
            "ProjectMetrics",
            format!("/projects/{project}/metrics/{}", main.read_only_key),
            Audience::Everybody,
        ),
        (
            "ProjectMetrics",
            format!("/projects/{project}/metrics/{}", main.read_write_key),
            Audience::Nobody(401),
        ),
        (
            "ProjectMetrics",
            format!(
                "/projects/{project}/metrics/{}",
                fixture.other.read_only_key
            ),
            Audience::Nobody(403),
        ),
        (
            "ProjectMetrics",
            format!("/projects/{project}/metrics/"),
            Audience::Nobody(401),
        ),
        (
            "ProviderLogout",
            "/login/provider/0/logout".into(),
            Audience::Nobody(404),
        ),
    ]
}

/// Variants of `Route`, from its source.
fn variants_of_route() -> BTreeSet<String> {
    let source = include_str!("../../../src/http/routes.rs");
    let start = source.find("enum Route {").unwrap();
    let body = &source[start..];
    let body = &body[..body.find("\n}").unwrap()];
    body.lines()
        .filter(|line| {
            line.starts_with("    ") && line.trim_start().starts_with(char::is_uppercase)
        })
        .map(|line| line.trim().split(['(', ',']).next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn other_urls_are_open_to_their_audience() {
    let fixture = Fixture::start().await;
    let objects = fixture.create_objects().await;
    let badges = fixture.server.api("GET", "/badges/", "").await.json();
    let urls = urls(&fixture, &objects, &badges);
    // `Api` and `Instance` have tables.
    let tested: BTreeSet<_> = urls
        .iter()
        .map(|(variant, ..)| (*variant).to_owned())
        .collect();
    let tables = ["Api", "Instance"].map(str::to_owned);
    assert_eq!(
        tested.into_iter().chain(tables).collect::<BTreeSet<_>>(),
        variants_of_route()
    );
    for (_, path, audience) in urls {
        for credential in CREDENTIALS {
            let answer = fixture.send(credential, "GET", &path).await;
            let request = format!("GET {path} with {credential:?}");
            let expected = match audience {
                Audience::Everybody => 200,
                Audience::Only(credentials, _) if credentials.contains(&credential) => 200,
                Audience::Only(_, status) | Audience::Nobody(status) => status,
            };
            assert_eq!(answer.status, expected, "{request}: {answer:?}");
            if expected != 200 {
                assert_hides_objects(&answer, &request);
            }
        }
    }
    fixture.server.stop().await;
}
