//! Valid paths, almost valid paths, and a round trip of every route.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::ids::UniqueKey;
use crate::domain::project::PingKey;
use crate::domain::text::Slug;
use crate::http::api::{ApiVersion, ENDPOINTS, EndpointRow};
use crate::http::common::badge_path::{BadgeFormat, BadgeStates};
use crate::http::common::ping_path::PingAction;
use crate::notifier::UnsubscribeTarget;

const U: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
const K: &str = "ABCDEFGHIJKLMNOPQRSTUv";

fn filled(template: &str) -> String {
    template.replace("UU", U).replace("KK", K)
}

#[test]
fn ping_paths() {
    let uuid = parse_path_uuid(U).unwrap();
    for (path, action) in [
        ("/ping/UU", PingAction::Success),
        ("/ping/UU/", PingAction::Success),
        ("/ping/UU/start", PingAction::Start),
        ("/ping/UU/fail", PingAction::Fail),
        ("/ping/UU/log", PingAction::Log),
        ("/ping/UU/0", PingAction::ExitStatus(0)),
        ("/ping/UU/000", PingAction::ExitStatus(0)),
        ("/ping/UU/1", PingAction::ExitStatus(1)),
        ("/ping/UU/0255", PingAction::ExitStatus(255)),
        ("/ping/UU/256", PingAction::BadExitStatus),
        (
            "/ping/UU/99999999999999999999999",
            PingAction::BadExitStatus,
        ),
    ] {
        assert_eq!(
            Route::parse(&filled(path)),
            Some(Route::Ping(PingPath::Uuid(uuid, action))),
            "{path}"
        );
        let by_slug = path.replace("UU", "KK/a-b_1");
        let slug = Slug::parse("a-b_1").unwrap();
        let wanted = (!path.ends_with('/'))
            .then(|| Route::Ping(PingPath::Slug(PingKey::parse(K).unwrap(), slug, action)));
        assert_eq!(Route::parse(&filled(&by_slug)), wanted, "{by_slug}");
    }
    assert_eq!(
        Route::parse("/ping/any/Slug"),
        Some(Route::Ping(PingPath::BadSlug))
    );
    for path in [
        "/ping",
        "/ping/",
        "/ping/UU/-1",
        "/ping/UU/1.5",
        "/ping/UU/stop",
        "/ping/UU/start/",
        "/ping/UU//",
        "/ping/KK",
        "/ping/KK/",
        "/ping/KK/a.b",
        "/ping/KK/a%2Fb",
        "/ping/a.b/slug",
        "/ping//slug",
        "/ping/UU/slug",
        "/ping/KK/a/b/c",
        "//ping/UU",
        "ping/UU",
        "",
    ] {
        assert_eq!(Route::parse(&filled(path)), None, "{path}");
    }
    assert_eq!(Route::parse(&format!("/ping/{}", U.to_uppercase())), None);
}

/// Path of an endpoint in a version of the API.
fn endpoint_path(version: ApiVersion, row: &EndpointRow, uuid: Uuid, n: u64) -> String {
    let template = row
        .template
        .replace("{uuid}", &uuid.to_string())
        .replace("{unique_key}", &UniqueKey::of_check(uuid).to_string())
        .replace("{n}", &n.to_string());
    format!("{}{template}", version.path())
}

fn written(endpoint: &Endpoint) -> String {
    let mut path = String::new();
    endpoint.write(&mut path);
    path
}

#[test]
fn endpoint_paths() {
    for row in ENDPOINTS {
        for version in row.versions {
            let path = endpoint_path(*version, row, Uuid::nil(), 1);
            let Some(Route::Api(endpoint)) = Route::parse(&path) else {
                panic!("{path}")
            };
            assert_eq!((&endpoint.version, &*written(&endpoint)), (version, &*path));
            assert!(!endpoint.is_slash_missing, "{path}");
            let Some(short) = path.strip_suffix('/') else {
                assert_eq!(Route::parse(&format!("{path}/")), None, "{path}/");
                continue;
            };
            let without_slash = Endpoint {
                is_slash_missing: true,
                ..endpoint
            };
            assert_eq!(written(&without_slash), short);
            assert_eq!(Route::parse(short), Some(Route::Api(without_slash)));
        }
    }
    let too_large = format!("/api/v3/checks/{U}/pings/99999999999999999999/body");
    assert!(matches!(Route::parse(&too_large), Some(Route::Api(_))));
    assert_eq!(Route::parse("/api/v3/openapi.json"), Some(Route::OpenApi));
}

#[test]
fn no_other_path_is_an_endpoint() {
    let unique_key = "0123456789abcdef0123456789abcdef01234567";
    for path in [
        "/api",
        "/api/",
        "/api/v3",
        "/api/v3/",
        "/api/v4/checks/",
        "/api/v2/openapi.json",
        "/api/v3/openapi.json/",
        "/api/v3/check/",
        "/api/v3//checks/",
        "/api/v3/checks//",
        "/api/v3/checks/UU/pings/x/body",
        "/api/v3/checks/UU/pings/-1/body",
        "/api/v3/checks/UU/pings/1",
        "/api/v3/checks/UU/nothing",
        &format!("/api/v3/checks/{}", unique_key.to_uppercase()),
        &format!("/api/v3/checks/{unique_key}/pings/"),
        "/api/overdue/v1",
        "/api/overdue/v1/",
        "/api/overdue/v1/checks",
        "/api/overdue/v1/checks/UU",
        "/api/overdue/v1/channels/x",
        "/api/overdue/v1/channels/UU/pause",
        "/api/overdue/v1/channels/UU/test/x",
        &format!("/api/overdue/v1/channels/{}", U.to_uppercase()),
        "/api/overdue/v1/deliveries/1",
        "/api/overdue/channels",
        "/api/overdue/v2/channels",
        "/api/overdue",
        "/overdue/v1/channels",
    ] {
        assert_eq!(Route::parse(&filled(path)), None, "{path}");
    }
}

#[test]
fn badge_paths() {
    let three = BadgeStates::Three;
    let two = BadgeStates::Two;
    let svg = BadgeFormat::Svg;
    let signed = |states, tag: Option<&str>| BadgePath::Tag {
        badge_key: "key".into(),
        signature: "abcdefgh".into(),
        states,
        tag: tag.map(Box::from),
        format: svg,
    };
    let check = |states, format| BadgePath::Check {
        states,
        badge: parse_path_uuid(U).unwrap(),
        format,
    };
    for (path, badge) in [
        ("/badge/key/abcdefgh.svg", signed(three, None)),
        ("/badge/key/abcdefgh-2.svg", signed(two, None)),
        ("/badge/key/abcdefgh/a.b.svg", signed(three, Some("a.b"))),
        (
            "/badge/key/abcdefgh-2/%2F%C5%BE.svg",
            signed(two, Some("/ž")),
        ),
        ("/badge/key/abcdefgh/.svg", signed(three, Some(""))),
        ("/b/2/UU.svg", check(two, svg)),
        ("/b/3/UU.shields", check(three, BadgeFormat::Shields)),
        ("/badge/key/abcdefgh.png", BadgePath::Unknown),
        ("/badge/key/abcdefgh", BadgePath::Unknown),
        ("/badge/key/abcdefg.svg", BadgePath::Unknown),
        ("/badge/key/abcdefgh-3/a.svg", BadgePath::Unknown),
        ("/badge/key/abcdefgh/%FF.svg", BadgePath::Unknown),
        ("/b/2/UU.SVG", BadgePath::Unknown),
        ("/b/2/UU", BadgePath::Unknown),
        ("/b/3/x.svg", BadgePath::Unknown),
    ] {
        assert_eq!(
            Route::parse(&filled(path)),
            Some(Route::Badge(badge)),
            "{path}"
        );
    }
    for path in [
        "/b/4/UU.svg",
        "/b/UU.svg",
        "/b/2/UU/x.svg",
        "/badge/key.svg",
        "/badge/key/abcdefgh/a/b.svg",
        "/healthz/",
    ] {
        assert_eq!(Route::parse(&filled(path)), None, "{path}");
    }
}

fn ping_path() -> impl Strategy<Value = PingPath> {
    let action = prop_oneof![
        prop::sample::select(vec![
            PingAction::Success,
            PingAction::Start,
            PingAction::Fail,
            PingAction::Log,
            PingAction::BadExitStatus
        ]),
        any::<u8>().prop_map(PingAction::ExitStatus),
    ];
    let key =
        "[A-Za-z0-9_-]{1,35}|[A-Za-z0-9_-]{37,128}".prop_map(|key| PingKey::parse(&key).unwrap());
    let slug = "[a-z0-9_-]{1,100}".prop_map(|slug| Slug::parse(&slug).unwrap());
    prop_oneof![
        (any::<u128>(), action.clone())
            .prop_map(|(uuid, action)| PingPath::Uuid(Uuid::from_u128(uuid), action)),
        (key, slug, action).prop_map(|(key, slug, action)| PingPath::Slug(key, slug, action)),
        Just(PingPath::BadSlug),
    ]
}

fn badge_path() -> impl Strategy<Value = BadgePath> {
    let form = || {
        (
            prop::sample::select(vec![BadgeStates::Two, BadgeStates::Three]),
            prop::sample::select(BadgeFormat::ALL.to_vec()),
        )
    };
    let signed = (
        "[A-Za-z0-9_-]{22}",
        "[A-Za-z0-9_-]{8}",
        any::<Option<String>>(),
        form(),
    );
    prop_oneof![
        signed.prop_map(|(badge_key, signature, tag, (states, format))| {
            let badge_key = badge_key.into();
            let signature = signature.into();
            let tag = tag.map(Box::from);
            BadgePath::Tag {
                badge_key,
                signature,
                states,
                tag,
                format,
            }
        }),
        (any::<u128>(), form()).prop_map(|(badge, (states, format))| BadgePath::Check {
            states,
            badge: Uuid::from_u128(badge),
            format
        }),
        Just(BadgePath::Unknown),
    ]
}

/// A path, and the route that it was written for.
fn written_route() -> impl Strategy<Value = (String, Route)> {
    let write = |write: &dyn Fn(&mut String)| {
        let mut path = String::new();
        write(&mut path);
        path
    };
    prop_oneof![
        ping_path().prop_map(move |path| (write(&|out| path.write(out)), Route::Ping(path))),
        badge_path().prop_map(move |path| (write(&|out| path.write(out)), Route::Badge(path))),
        (any::<u128>(), any::<bool>(), "[A-Za-z0-9_-]{43}").prop_map(move |drawn| {
            let (uuid, is_channel, signature) = drawn;
            let uuid = Uuid::from_u128(uuid);
            let target = if is_channel {
                UnsubscribeTarget::Channel(uuid)
            } else {
                UnsubscribeTarget::Summary(uuid)
            };
            let path = UnsubscribePath {
                target,
                signature: signature.into(),
            };
            (write(&|out| path.write(out)), Route::Unsubscribe(path))
        }),
    ]
}

#[test]
fn the_beginning_of_a_connection_tells_if_it_reads() {
    let base_url: BaseUrl = "https://example.com/sub".parse().unwrap();
    for (bytes, expected) in [
        ("GET /sub/api/v3/checks/?tag=a HTTP/1.1\r\n", true),
        ("HEAD /sub/api/v3/checks/ HTTP/1.1\r\n", true),
        ("GET /sub/projects/ HTTP/1.1\r\nHost: a", true),
        ("GET /api/v3/checks/ HTTP/1.1\r\n", true),
        // The rest of the path has not arrived.
        ("GET /sub/proj", true),
        (
            "GET /sub/ping/6bf2ac3e-0000-4000-8000-000000000000 HTTP/1.1",
            false,
        ),
        ("GET /sub/ping/key/backup?create=1 HTTP/1.1\r\n", false),
        ("GET /sub/badge/main/a/b.svg HTTP/1.1\r\n", false),
        ("GET /sub/metrics HTTP/1.1\r\n", false),
        ("POST /sub/api/v3/checks/ HTTP/1.1\r\n", false),
        ("DELETE /sub/api/v3/checks/ HTTP/1.1\r\n", false),
        ("G", false),
        ("", false),
        ("\u{1}\u{2} \u{3}", false),
    ] {
        assert_eq!(
            begins_stale_read(bytes.as_bytes(), &base_url),
            expected,
            "{bytes:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_written_path_is_parsed_as_the_same_route((path, route) in written_route()) {
        let is_path_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        prop_assert!(path.bytes().all(is_path_byte), "{path}");
        prop_assert_eq!(Route::parse(&path), Some(route), "{}", path);
    }

    #[test]
    fn the_path_of_an_endpoint_is_written_as_it_was_read(
        index in 0..ENDPOINTS.len(),
        version in prop::sample::select(ApiVersion::ALL.to_vec()),
        uuid in any::<u128>(),
        n in any::<u64>(),
    ) {
        let row = &ENDPOINTS[index];
        let path = endpoint_path(version, row, Uuid::from_u128(uuid), n);
        match Route::parse(&path) {
            Some(Route::Api(endpoint)) => prop_assert_eq!(written(&endpoint), path),
            other => prop_assert!(other.is_none() && !row.versions.contains(&version), "{}", path),
        }
    }

    #[test]
    fn any_path_can_be_parsed(
        path in concat!(
            "(/(ping|api|v3|overdue|v1|channels|checks|badge|b|2|[a-z0-9.%-]{0,10}))*|",
            "\\PC{0,40}"
        ),
    ) {
        if let Some(Route::Api(endpoint)) = Route::parse(&path) {
            prop_assert_eq!(Route::parse(&written(&endpoint)), Some(Route::Api(endpoint)));
        }
    }
}
