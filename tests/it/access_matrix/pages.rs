//! Pages, for users of every role and for clients that are not signed in.

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::http::dashboard::{Page, RequiredRight, Scope};

use super::{Credential, Fixture, Objects, assert_hides_objects};
use crate::web::browser::{Browser, make, signed_in};

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// Credentials that sign no browser in.
const NO_SIGN_IN: [Credential; 7] = [
    Credential::Nothing,
    Credential::PingKey,
    Credential::InstanceKey,
    Credential::MetricsToken,
    Credential::OwnerPassword,
    Credential::ProxyHeader,
    Credential::ReadWrite,
];

/// Users in the order of their access to the main project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    NotSignedIn,
    MemberOfOtherProject,
    Reader,
    Member,
    Owner,
}

/// A client: its role and what its requests contain.
struct Visitor {
    role: Role,
    cookie: Option<String>,
    headers: Vec<(String, String)>,
}

async fn visitors(fixture: &Fixture) -> Vec<Visitor> {
    let mut visitors: Vec<_> = NO_SIGN_IN
        .into_iter()
        .map(|credential| {
            let header = fixture.header(credential);
            let headers = header.map(|(name, value)| (name.to_owned(), value));
            Visitor {
                role: Role::NotSignedIn,
                cookie: None,
                headers: headers.into_iter().collect(),
            }
        })
        .collect();
    let server = &fixture.server;
    let only = |id, membership| Grant::Projects(ProjectMemberships::new([(id, membership)]));
    for (role, name, grant) in [
        (
            Role::MemberOfOtherProject,
            "stranger",
            only(fixture.other.id, Membership::Member),
        ),
        (
            Role::Reader,
            "reader",
            only(server.main.id, Membership::ReadOnly),
        ),
        (
            Role::Member,
            "member",
            only(server.main.id, Membership::Member),
        ),
        (Role::Owner, "owner", Grant::Owner),
    ] {
        make(server, name, grant).await;
        let cookie = signed_in(server, name).await.cookie;
        visitors.push(Visitor {
            role,
            cookie,
            headers: Vec::new(),
        });
    }
    visitors
}

/// Status of a refusal. `None`: the visitor has access, and the status depends on the form.
fn refusal(role: Role, need: RequiredRight, page: &Page, method: &str) -> Option<u16> {
    let is_of_project = page.scope() != Scope::Server;
    match (role, need) {
        (_, RequiredRight::Public) => None,
        // A form waits in its page until the user has signed in again.
        (Role::NotSignedIn, _) if method == "POST" => Some(401),
        (Role::NotSignedIn, _) if matches!(page, Page::Events(_)) => Some(200),
        (Role::NotSignedIn, _) => Some(303),
        (Role::Owner, _) | (_, RequiredRight::SignedIn) => None,
        (Role::MemberOfOtherProject, _) if is_of_project => Some(404),
        (_, RequiredRight::Owner) | (Role::Reader, RequiredRight::Write) => Some(403),
        _ => None,
    }
}

fn path_of(page: &Page, objects: &Objects) -> String {
    let uuid = match page.scope() {
        Scope::Project(_) => &objects.project,
        Scope::Check(_) => &objects.check,
        Scope::Channel(_) => &objects.channel,
        Scope::Server => return page.to_string(),
    };
    // The first UUID of a path is that of its resource; a second one belongs to a part of it.
    page.to_string()
        .replacen(NIL, uuid, 1)
        .replace(NIL, &objects.window)
}

/// Sends a request to a page as every visitor. They are in the order of their access, so those
/// without it come first: they change nothing.
async fn test_page(
    fixture: &Fixture,
    visitors: &[Visitor],
    page: &Page,
    (method, need): (&str, RequiredRight),
    objects: &Objects,
) {
    let path = path_of(page, objects);
    let is_refused = |visitor: &&Visitor| refusal(visitor.role, need, page, method).is_some();
    let refused_count = visitors.iter().take_while(is_refused).count();
    assert_eq!(refused_count, visitors.iter().filter(is_refused).count());
    let before = fixture.state().await;
    for (index, visitor) in visitors.iter().enumerate() {
        let refusal = refusal(visitor.role, need, page, method);
        let mut browser = Browser::new(&fixture.server);
        browser.cookie.clone_from(&visitor.cookie);
        browser.headers.clone_from(&visitor.headers);
        let answer = browser.send(method, &path, &[]).await;
        let request = format!(
            "{method} {path} by {:?} {:?}",
            visitor.role, visitor.headers
        );
        if let Some(status) = refusal {
            assert_eq!(answer.status, status, "{request}: {answer:?}");
            assert_hides_objects(&answer, &request);
            if index + 1 == refused_count {
                assert_eq!(fixture.state().await, before, "{request}");
            }
        } else {
            let location = answer.header("Location").unwrap_or_default();
            let leads_to_sign_in = location.starts_with("/login/");
            assert!(
                answer.status < 500
                    && ![401, 403].contains(&answer.status)
                    && (need == RequiredRight::Public || !leads_to_sign_in),
                "{request}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn every_page_requires_the_right_in_its_row() {
    let fixture = Fixture::start().await;
    let visitors = visitors(&fixture).await;
    let mut objects = fixture.create_objects().await;
    for page in Page::examples() {
        // These remove what the requests need: the session, and the project.
        if matches!(page, Page::Logout() | Page::DeleteProject(_)) {
            continue;
        }
        if let Some(need) = page.get() {
            test_page(&fixture, &visitors, &page, ("GET", need), &objects).await;
        }
        if let Some(need) = page.post() {
            test_page(&fixture, &visitors, &page, ("POST", need), &objects).await;
            objects = fixture.replace_objects(objects).await;
        }
    }
    fixture.server.stop().await;
}
