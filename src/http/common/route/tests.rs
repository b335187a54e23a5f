//! Valid paths, almost valid paths, and a round trip of every route.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::ids::{UniqueKey, parse_path_uuid};
use crate::domain::project::PingKey;
use crate::domain::text::Slug;

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

#[test]
fn api_paths() {
    let unique = "0123456789abcdef0123456789abcdef01234567";
    let key = UniqueKey::parse(unique).unwrap();
    for (resource, template) in ApiResource::ALL {
        let path = template
            .replace("{uuid}", &Uuid::nil().to_string())
            .replace("{unique_key}", unique)
            .replace("{n}", "1");
        let resource = match resource {
            ApiResource::UniqueCheck(_) => ApiResource::UniqueCheck(key),
            ApiResource::UniqueFlips(_) => ApiResource::UniqueFlips(key),
            other => other,
        };
        for (name, version) in [
            ("v1", ApiVersion::V1),
            ("v2", ApiVersion::V2),
            ("v3", ApiVersion::V3),
        ] {
            let endpoint = Endpoint {
                version,
                resource,
                is_slash_missing: false,
            };
            assert_eq!(
                Route::parse(&format!("/api/{name}{path}")),
                Some(Route::Api(endpoint.clone())),
                "{path}"
            );
            let other_form = path
                .strip_suffix('/')
                .map_or_else(|| format!("{path}/"), str::to_owned);
            let wanted = path.ends_with('/').then_some(Route::Api(Endpoint {
                is_slash_missing: true,
                ..endpoint
            }));
            assert_eq!(
                Route::parse(&format!("/api/{name}{other_form}")),
                wanted,
                "{other_form}"
            );
        }
    }
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
    ] {
        assert_eq!(Route::parse(&filled(path)), None, "{path}");
    }
    assert_eq!(Route::parse("/api/v3/openapi.json"), Some(Route::OpenApi));
    assert_eq!(
        Route::parse(&format!("/api/v3/checks/{}", unique.to_uppercase())),
        None
    );
    assert_eq!(
        Route::parse(&format!("/api/v3/checks/{unique}/pings/")),
        None
    );
}

#[test]
fn extension_paths() {
    for (resource, template) in ExtensionResource::ALL {
        let path =
            format!("{EXTENSION_PATH}{template}").replace("{uuid}", &Uuid::nil().to_string());
        assert_eq!(
            Route::parse(&path),
            Some(Route::Extension(resource)),
            "{path}"
        );
        assert_eq!(Route::parse(&format!("{path}/")), None, "{path}/");
    }
    for path in [
        "",
        "/",
        "/checks",
        "/checks/UU",
        "/channels/x",
        "/channels/UU/pause",
        "/channels/UU/test/x",
        "/deliveries/1",
    ] {
        assert_eq!(
            Route::parse(&filled(&format!("{EXTENSION_PATH}{path}"))),
            None,
            "{path}"
        );
    }
    for path in [
        "/api/overdue/channels",
        "/api/overdue/v2/channels",
        "/api/overdue",
        "/overdue/v1/channels",
    ] {
        assert_eq!(Route::parse(path), None, "{path}");
    }
    assert_eq!(
        Route::parse(&format!("{EXTENSION_PATH}/channels/{}", U.to_uppercase())),
        None
    );
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

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let version = prop::sample::select(vec![ApiVersion::V1, ApiVersion::V2, ApiVersion::V3]);
    let all = ApiResource::ALL.map(|(resource, _)| resource).to_vec();
    (
        version,
        prop::sample::select(all),
        any::<u128>(),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(version, resource, uuid, n, bare)| {
            let uuid = Uuid::from_u128(uuid);
            let key = UniqueKey::of_check(uuid);
            let resource = match resource {
                ApiResource::Check(_) => ApiResource::Check(uuid),
                ApiResource::UniqueCheck(_) => ApiResource::UniqueCheck(key),
                ApiResource::Pause(_) => ApiResource::Pause(uuid),
                ApiResource::Resume(_) => ApiResource::Resume(uuid),
                ApiResource::Pings(_) => ApiResource::Pings(uuid),
                ApiResource::PingBody(..) => ApiResource::PingBody(uuid, n),
                ApiResource::Flips(_) => ApiResource::Flips(uuid),
                ApiResource::UniqueFlips(_) => ApiResource::UniqueFlips(key),
                other @ (ApiResource::Checks
                | ApiResource::Channels
                | ApiResource::Badges
                | ApiResource::Status) => other,
            };
            let slash_missing = bare && resource.ends_in_slash();
            Endpoint {
                is_slash_missing: slash_missing,
                ..Endpoint::new(version, resource)
            }
        })
}

fn own_resource() -> impl Strategy<Value = ExtensionResource> {
    let all = ExtensionResource::ALL
        .map(|(resource, _)| resource)
        .to_vec();
    (prop::sample::select(all), any::<u128>()).prop_map(|(resource, uuid)| {
        let uuid = Uuid::from_u128(uuid);
        match resource {
            ExtensionResource::Channel(_) => ExtensionResource::Channel(uuid),
            ExtensionResource::Test(_) => ExtensionResource::Test(uuid),
            ExtensionResource::Enable(_) => ExtensionResource::Enable(uuid),
            ExtensionResource::ChannelDeliveries(_) => ExtensionResource::ChannelDeliveries(uuid),
            ExtensionResource::CheckDeliveries(_) => ExtensionResource::CheckDeliveries(uuid),
            ExtensionResource::Alerting(_) => ExtensionResource::Alerting(uuid),
            ExtensionResource::Window(_) => ExtensionResource::Window(uuid),
            other @ (ExtensionResource::Kinds
            | ExtensionResource::Channels
            | ExtensionResource::Deliveries
            | ExtensionResource::Windows) => other,
        }
    })
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

fn route() -> impl Strategy<Value = Route> {
    prop_oneof![
        4 => ping_path().prop_map(Route::Ping),
        8 => endpoint().prop_map(Route::Api),
        4 => own_resource().prop_map(Route::Extension),
        4 => badge_path().prop_map(Route::Badge),
        1 => (any::<u128>(), "[A-Za-z0-9_-]{43}")
            .prop_map(|(id, signature)| Route::Unsubscribe(Uuid::from_u128(id), signature.into())),
        1 => Just(Route::OpenApi),
        1 => Just(Route::Health),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_written_path_is_parsed_as_the_same_route(route in route()) {
        let mut path = String::new();
        route.write(&mut path);
        let is_path_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        prop_assert!(path.bytes().all(is_path_byte), "{path}");
        prop_assert_eq!(Route::parse(&path), Some(route), "{}", path);
    }

    #[test]
    fn any_path_can_be_parsed(
        path in concat!(
            "(/(ping|api|v3|overdue|v1|channels|checks|badge|b|2|[a-z0-9.%-]{0,10}))*|",
            "\\PC{0,40}"
        ),
    ) {
        if let Some(route) = Route::parse(&path) {
            let mut written = String::new();
            route.write(&mut written);
            prop_assert_eq!(Route::parse(&written), Some(route));
        }
    }
}
