//! The API with keys of projects, and the endpoints of the instance key.

use std::sync::atomic::Ordering;

use overdue::admin::instance_endpoints;
use overdue::domain::project::KeyAccess;
use overdue::http::api::{ENDPOINTS, EndpointRow, Verb};

use super::{CREDENTIALS, Credential, Fixture, Objects, assert_hides_objects};

/// Statuses that a credential may get.
enum ExpectedStatus {
    /// The key is missing or wrong.
    Unauthorized,
    /// The object belongs to another project.
    Hidden,
    /// The request was carried out, or the body or the state of the object was wrong.
    Allowed,
}

impl ExpectedStatus {
    fn of(credential: Credential, need: KeyAccess, names_object: bool) -> Self {
        let (is_own, access) = match credential {
            Credential::ReadOnly => (true, KeyAccess::ReadOnly),
            Credential::ReadWrite => (true, KeyAccess::ReadWrite),
            Credential::OtherProjectReadOnly => (false, KeyAccess::ReadOnly),
            Credential::OtherProjectReadWrite => (false, KeyAccess::ReadWrite),
            _ => return Self::Unauthorized,
        };
        if need == KeyAccess::ReadWrite && access != need {
            Self::Unauthorized
        } else if names_object && !is_own {
            Self::Hidden
        } else {
            Self::Allowed
        }
    }

    fn includes(&self, status: u16) -> bool {
        match self {
            Self::Unauthorized => status == 401,
            Self::Hidden => matches!(status, 403 | 404),
            Self::Allowed => matches!(status, 200 | 201 | 204 | 400 | 409),
        }
    }
}

fn path_of(row: &EndpointRow, objects: &Objects) -> String {
    let uuid = match row.template {
        template if template.starts_with("/channels") => &objects.channel,
        template if template.starts_with("/windows") => &objects.window,
        _ => &objects.check,
    };
    row.template
        .replace("{uuid}", uuid)
        .replace("{unique_key}", &objects.unique_key)
        .replace("{n}", "1")
}

/// Sends a request to an endpoint with every credential. They are in the order of their access, so
/// those without it come first: they change nothing.
async fn test_endpoint(
    fixture: &Fixture,
    (method, path): (&str, &str),
    need: KeyAccess,
    names_object: bool,
) {
    let expected = |credential| ExpectedStatus::of(credential, need, names_object);
    let may_change = |credential: &Credential| {
        matches!(credential, Credential::ReadOnly | Credential::ReadWrite)
            && matches!(expected(*credential), ExpectedStatus::Allowed)
    };
    let refused_count = CREDENTIALS.iter().filter(|one| !may_change(one)).count();
    let before = fixture.state().await;
    for (index, credential) in CREDENTIALS.into_iter().enumerate() {
        let request = format!("{method} {path} with {credential:?}");
        let answer = fixture.send(credential, method, path).await;
        assert!(
            expected(credential).includes(answer.status),
            "{request}: {answer:?}"
        );
        if !may_change(&credential) {
            assert_hides_objects(&answer, &request);
        }
        if index + 1 == refused_count {
            assert_eq!(fixture.state().await, before, "{request}");
        }
    }
}

#[tokio::test]
async fn every_endpoint_is_open_to_keys_of_its_project_with_its_access() {
    let fixture = Fixture::start().await;
    let mut objects = fixture.create_objects().await;
    for row in ENDPOINTS {
        let names_object = row.template.contains('{');
        for (version, rules) in row
            .versions
            .iter()
            .flat_map(|version| row.verbs.iter().map(move |rules| (version, rules)))
        {
            let path = format!("{}{}", version.path(), path_of(row, &objects));
            let method = match rules.verb {
                Verb::Get => "GET",
                Verb::Post => "POST",
                Verb::Put => "PUT",
                Verb::Delete => "DELETE",
            };
            test_endpoint(&fixture, (method, &path), rules.access, names_object).await;
            if rules.verb != Verb::Get {
                objects = fixture.replace_objects(objects).await;
            }
        }
    }
    fixture.server.stop().await;
}

#[tokio::test]
async fn every_endpoint_of_the_instance_key_is_open_to_it_alone() {
    let fixture = Fixture::start().await;
    let accepted = || fixture.instance_requests.0.load(Ordering::Relaxed);
    for (method, template) in instance_endpoints() {
        let path = format!("/api/overdue/v1{}", template.replace(['{', '}'], ""));
        for credential in CREDENTIALS {
            let before = accepted();
            let answer = fixture.send(credential, method, &path).await;
            let is_allowed = credential == Credential::InstanceKey;
            assert_eq!(
                (answer.status, accepted() - before),
                if is_allowed { (204, 1) } else { (401, 0) },
                "{method} {path} with {credential:?}: {answer:?}"
            );
        }
    }
    fixture.server.stop().await;
}
