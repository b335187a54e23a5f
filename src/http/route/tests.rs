//! Paths that name something, and paths that come close.

use super::*;

const U: &str = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
const K: &str = "ABCDEFGHIJKLMNOPQRSTUv";

fn filled(template: &str) -> String {
    template.replace("UU", U).replace("KK", K)
}

#[test]
fn ping_paths() {
    use Kind::{Fail, Log, Start, Success};
    let uuid = path_uuid(U).unwrap();
    for (path, kind) in [
        ("/ping/UU", Some(Success)),
        ("/ping/UU/", Some(Success)),
        ("/ping/UU/start", Some(Start)),
        ("/ping/UU/fail", Some(Fail)),
        ("/ping/UU/log", Some(Log)),
        ("/ping/UU/0", Some(Success)),
        ("/ping/UU/000", Some(Success)),
        ("/ping/UU/1", Some(Fail)),
        ("/ping/UU/0255", Some(Fail)),
        ("/ping/UU/256", None),
        ("/ping/UU/99999999999999999999999", None),
    ] {
        let action = kind.map_or(Action::BadExitStatus, Action::Signal);
        assert_eq!(Route::parse(&filled(path)), Some(Route::Ping(PingPath::Uuid(uuid, action))), "{path}");
        let by_slug = path.replace("UU", "KK/a-b_1");
        let slug = Slug::parse("a-b_1").unwrap();
        let wanted = (!path.ends_with('/')).then(|| Route::Ping(PingPath::Slug(PingKey::parse(K).unwrap(), slug, action)));
        assert_eq!(Route::parse(&filled(&by_slug)), wanted, "{by_slug}");
    }
    assert_eq!(Route::parse("/ping/any/Slug"), Some(Route::Ping(PingPath::BadSlug)));
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
        "/ping/short/slug",
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
    for (resource, template) in Resource::ALL {
        let path = template.replace("{uuid}", &Uuid::nil().to_string()).replace("{unique_key}", unique).replace("{n}", "1");
        let resource = match resource {
            Resource::UniqueCheck(_) => Resource::UniqueCheck(key),
            Resource::UniqueFlips(_) => Resource::UniqueFlips(key),
            other => other,
        };
        for (name, version) in [("v1", Version::V1), ("v2", Version::V2), ("v3", Version::V3)] {
            let endpoint = Endpoint { version, resource: resource.clone(), slash_missing: false };
            assert_eq!(Route::parse(&format!("/api/{name}{path}")), Some(Route::Api(endpoint.clone())), "{path}");
            let other_form = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
            let wanted = path.ends_with('/').then_some(Route::Api(Endpoint { slash_missing: true, ..endpoint }));
            assert_eq!(Route::parse(&format!("/api/{name}{other_form}")), wanted, "{other_form}");
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
    assert_eq!(Route::parse(&format!("/api/v3/checks/{}", unique.to_uppercase())), None);
    assert_eq!(Route::parse(&format!("/api/v3/checks/{unique}/pings/")), None);
}
