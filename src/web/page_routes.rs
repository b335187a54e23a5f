//! The table of pages: their paths, what they belong to, and what whoever asks has to be allowed. Links are written from the same table.

use std::fmt;

use uuid::Uuid;

use super::assets::{self, File};
use crate::docs::{CHAPTERS, Chapter};
use crate::domain::channel::ChannelKind;
use crate::domain::ids::{UniqueKey, parse_path_uuid, write_uuid};
use crate::domain::user::one_time_link::LinkCode;
use crate::wire::request::BaseUrl;

/// What whoever asks for a page, or sends its form, has to be allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing: nobody is asked who they are.
    Nothing,
    /// Being signed in.
    Person,
    /// Seeing the project that the page belongs to.
    Read,
    /// Changing it.
    Write,
    /// Being an owner of the server.
    Owner,
}

/// What a page belongs to, by the UUID in its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what they say")]
pub enum Scope {
    Server,
    Project(Uuid),
    Check(Uuid),
    Channel(Uuid),
}

/// A segment of a path that is not fixed.
trait Segment: Sized {
    /// One for tests of the table.
    fn example() -> Option<Self>;
    fn parse(text: &str) -> Option<Self>;
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl Segment for Uuid {
    fn example() -> Option<Self> {
        Some(Uuid::nil())
    }

    fn parse(text: &str) -> Option<Self> {
        parse_path_uuid(text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_uuid(*self, &mut text);
        f.write_str(&text)
    }
}

impl Segment for LinkCode {
    fn example() -> Option<Self> {
        Some(Self::EXAMPLE)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Segment for &'static ChannelKind {
    fn example() -> Option<Self> {
        ChannelKind::ALL.first().copied()
    }

    fn parse(text: &str) -> Option<Self> {
        ChannelKind::from_name(text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Segment for UniqueKey {
    fn example() -> Option<Self> {
        Some(UniqueKey::NONE)
    }

    fn parse(text: &str) -> Option<Self> {
        UniqueKey::parse(text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Segment for u64 {
    fn example() -> Option<Self> {
        Some(0)
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Segment for &'static Chapter {
    fn example() -> Option<Self> {
        CHAPTERS.first()
    }

    fn parse(text: &str) -> Option<Self> {
        CHAPTERS.iter().find(|chapter| chapter.slug == text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slug)
    }
}

/// A fixed segment, as it stands in the table.
fn write_fixed(segment: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(segment)
}

/// Makes [`Page`] from its table. A segment in quotation marks is fixed; every other one is a field of the page.
macro_rules! pages {
    (@write $f:ident, $fixed:literal) => { write_fixed($fixed, $f)? };
    (@write $f:ident, $field:ident) => { Segment::write($field, $f)? };
    ($($(#[$doc:meta])* $name:ident($($field:ident: $type:ty),*) of $scope:expr, [$($segment:tt)*]
        $(, get $get:ident)? $(, post $post:ident)?;)*) => {
        /// A page.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Page {
            $($(#[$doc])* $name($($type),*)),*
        }

        impl Page {
            /// One page of each kind.
            pub fn examples() -> Vec<Self> {
                [$(made(|| Some(Self::$name($(<$type as Segment>::example()?),*)))),*].into_iter().flatten().collect()
            }

            /// What the segments of a path name.
            fn of_segments(segments: &[&str]) -> Option<Self> {
                match *segments {
                    $([$($segment),*] => Some(Self::$name($(<$type as Segment>::parse($field)?),*)),)*
                    _ => None,
                }
            }

            /// What it belongs to.
            #[allow(unused_variables, reason = "not every page belongs to what its path names")]
            pub fn scope(&self) -> Scope {
                match self {
                    $(Self::$name($($field),*) => $scope),*
                }
            }

            /// What is needed to see it; `None`: there is nothing to be seen.
            pub fn get(&self) -> Option<Need> {
                match self {
                    $(Self::$name(..) => pages!(@need $($get)?)),*
                }
            }

            /// What is needed to send its form; `None`: it has none.
            pub fn post(&self) -> Option<Need> {
                match self {
                    $(Self::$name(..) => pages!(@need $($post)?)),*
                }
            }
        }

        impl fmt::Display for Page {
            /// Writes its path.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name($($field),*) => {
                        $(f.write_str("/")?; pages!(@write f, $segment);)*
                        f.write_str(pages!(@end $($segment)*))
                    })*
                }
            }
        }
    };
    (@need) => { None };
    (@need $need:ident) => { Some(Need::$need) };
    (@end $($segment:tt)*) => { end(&[$(stringify!($segment)),*]) };
}

pages! {
    /// Signing in.
    Login() of Scope::Server, ["login"], get Nothing, post Nothing;
    /// The second step of signing in.
    SecondStep() of Scope::Server, ["login" "code"], get Nothing, post Nothing;
    /// Signing out.
    Logout() of Scope::Server, ["logout"], post Nothing;
    /// Becoming the first owner, with a code that is typed.
    Setup() of Scope::Server, ["setup"], get Nothing, post Nothing;
    /// The same, with the code of a link.
    SetupCode(code: LinkCode) of Scope::Server, ["setup" code], get Nothing;
    /// Choosing a first password.
    Invite(code: LinkCode) of Scope::Server, ["invite" code], get Nothing, post Nothing;
    /// Choosing another password.
    Reset(code: LinkCode) of Scope::Server, ["reset" code], get Nothing, post Nothing;
    /// The projects, or the list of the only one.
    Projects() of Scope::Server, [], get Person;
    /// Making a project.
    AddProject() of Scope::Server, ["projects" "add"], get Owner, post Owner;
    /// The settings of a project.
    Settings(project: Uuid) of Scope::Project(*project), ["projects" project "settings"], get Read;
    /// Giving it another name.
    SettingsName(project: Uuid) of Scope::Project(*project), ["projects" project "settings" "name"], post Write;
    /// Making a key.
    SettingsKeys(project: Uuid) of Scope::Project(*project), ["projects" project "settings" "keys"], post Write;
    /// Revoking a key.
    Key(project: Uuid, key: u64) of Scope::Project(*project), ["projects" project "settings" "keys" key], get Write, post Write;
    /// It as a file.
    Export(project: Uuid) of Scope::Project(*project), ["projects" project "export.toml"], get Write;
    /// Setting limits.
    SettingsLimits(project: Uuid) of Scope::Project(*project), ["projects" project "settings" "limits"], post Owner;
    /// Deleting it.
    RemoveProject(project: Uuid) of Scope::Project(*project), ["projects" project "remove"], post Owner;
    /// Badges of a project.
    Badges(project: Uuid) of Scope::Project(*project), ["projects" project "badges"], get Read;
    /// The users.
    Users() of Scope::Server, ["users"], get Owner, post Owner;
    /// A user.
    User(user: Uuid) of Scope::Server, ["users" user], get Owner, post Owner;
    /// The server as a whole.
    System() of Scope::Server, ["system"], get Owner;
    /// A backup of it.
    Backup() of Scope::Server, ["system" "backup"], post Owner;
    /// The viewer's own account.
    Account() of Scope::Server, ["account"], get Person, post Person;
    /// Setting another password.
    AccountPassword() of Scope::Server, ["account" "password"], post Person;
    /// The second factor.
    AccountTotp() of Scope::Server, ["account" "totp"], get Person, post Person;
    /// Remembering how lists are sorted.
    AccountList() of Scope::Server, ["account" "list"], post Person;
    /// Ending sessions.
    AccountSessions() of Scope::Server, ["account" "sessions"], post Person;
    /// The list of checks.
    Checks(project: Uuid) of Scope::Project(*project), ["projects" project "checks"], get Read;
    /// What changes in it, as it happens.
    Events(project: Uuid) of Scope::Project(*project), ["projects" project "checks" "events"], get Read;
    /// The list of the chapters of the documentation.
    Chapters() of Scope::Server, ["docs"], get Nothing;
    /// A chapter.
    Chapter(chapter: &'static Chapter) of Scope::Server, ["docs" chapter], get Nothing;
    /// What is done to many checks.
    Bulk(project: Uuid) of Scope::Project(*project), ["projects" project "checks" "bulk"], post Write;
    /// A form for a new check.
    AddCheck(project: Uuid) of Scope::Project(*project), ["projects" project "checks" "add"], get Write, post Write;
    /// A check.
    Check(check: Uuid) of Scope::Check(*check), ["checks" check "details"], get Read;
    /// Its log.
    Log(check: Uuid) of Scope::Check(*check), ["checks" check "log"], get Read;
    /// One of its pings.
    Ping(check: Uuid, n: u64) of Scope::Check(*check), ["checks" check "pings" n], get Read;
    /// What that ping sent, as a file.
    Body(check: Uuid, n: u64) of Scope::Check(*check), ["checks" check "pings" n "body"], get Read;
    /// A form with its settings.
    EditCheck(check: Uuid) of Scope::Check(*check), ["checks" check "edit"], get Write, post Write;
    /// Pauses it.
    PauseCheck(check: Uuid) of Scope::Check(*check), ["checks" check "pause"], post Write;
    /// Resumes it.
    ResumeCheck(check: Uuid) of Scope::Check(*check), ["checks" check "resume"], post Write;
    /// Pings it.
    PingCheck(check: Uuid) of Scope::Check(*check), ["checks" check "ping"], post Write;
    /// Sets who is told of it.
    ChannelsOfCheck(check: Uuid) of Scope::Check(*check), ["checks" check "channels"], post Write;
    /// Sets its time zone.
    ZoneOfCheck(check: Uuid) of Scope::Check(*check), ["checks" check "zone"], post Write;
    /// Makes another one like it.
    CopyCheck(check: Uuid) of Scope::Check(*check), ["checks" check "copy"], post Write;
    /// Removes it.
    RemoveCheck(check: Uuid) of Scope::Check(*check), ["checks" check "remove"], get Write, post Write;
    /// The channels of a project.
    Integrations(project: Uuid) of Scope::Project(*project), ["projects" project "integrations"], get Read;
    /// A form for a new channel of some kind.
    AddIntegration(project: Uuid, kind: &'static ChannelKind) of Scope::Project(*project), ["projects" project "integrations" "add" kind], get Write, post Write;
    /// A form with the settings of a channel.
    EditIntegration(channel: Uuid) of Scope::Channel(*channel), ["integrations" channel "edit"], get Write, post Write;
    /// Sets which checks it tells of.
    ChecksOfIntegration(channel: Uuid) of Scope::Channel(*channel), ["integrations" channel "checks"], post Write;
    /// Sends a test to it.
    TestIntegration(channel: Uuid) of Scope::Channel(*channel), ["integrations" channel "test"], post Write;
    /// Lets it be told again.
    EnableIntegration(channel: Uuid) of Scope::Channel(*channel), ["integrations" channel "enable"], post Write;
    /// Removes it.
    RemoveIntegration(channel: Uuid) of Scope::Channel(*channel), ["integrations" channel "remove"], get Write, post Write;
    /// What a schedule that is being typed comes to.
    Preview() of Scope::Server, ["checks" "preview"], get Person;
    /// The check of a unique key, to which messages link.
    Cloaked(key: UniqueKey) of Scope::Server, ["cloaked" key], get Person;
}

/// A page that is made if all of its segments have examples.
fn made(make: impl FnOnce() -> Option<Page>) -> Option<Page> {
    make()
}

/// What stands at the end of a path: a slash, unless its last segment is the name of a file.
fn end(segments: &[&str]) -> &'static str {
    match segments.last() {
        Some(last) if last.contains('.') => "",
        _ => "/",
    }
}

/// What a path names in this room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DashboardTarget {
    /// A page.
    Page(Page),
    /// A page whose path lacks its last slash, or an address of the reference.
    Redirect(Page),
    /// A file that pages load.
    Asset(&'static File),
    /// What browsers ask for where no page names a picture.
    Favicon,
    /// What is asked of robots: that they go elsewhere.
    Robots,
}

impl DashboardTarget {
    /// What a path names, or `None`: there is no such thing here.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let inner = path.strip_prefix('/')?;
        if let Some(file) = assets::find_asset(inner) {
            return Some(Self::Asset(file));
        }
        match inner {
            "favicon.ico" => return Some(Self::Favicon),
            "robots.txt" => return Some(Self::Robots),
            _ => {}
        }
        let segments: Vec<_> = inner.splitn(MAX_SEGMENTS + 2, '/').collect();
        let segments = segments.strip_suffix(&[""]).unwrap_or(&segments);
        let page = Page::of_segments(segments).or_else(|| page_of_healthchecks_path(segments))?;
        Some(if page.to_string() == path { Self::Page(page) } else { Self::Redirect(page) })
    }
}

/// Addresses that bookmarks of the reference have: forms for parts of a check are one form here.
fn page_of_healthchecks_path(segments: &[&str]) -> Option<Page> {
    match *segments {
        ["checks", check, "name" | "timeout" | "filtering_rules"] => <Uuid as Segment>::parse(check).map(Page::EditCheck),
        ["accounts", "login"] => Some(Page::Login()),
        ["checks", check, "last_ping"] => <Uuid as Segment>::parse(check).map(Page::Log),
        _ => None,
    }
}

/// Segments of the longest path.
const MAX_SEGMENTS: usize = 6;

/// A link to a page, with the path under which the service is reached in front.
pub(crate) struct PageLink<'a> {
    pub(super) base_url: &'a BaseUrl,
    pub(super) page: &'a Page,
}

impl fmt::Display for PageLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base_url.path(), self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same_page() {
        for page in Page::examples() {
            let path = page.to_string();
            assert_eq!(DashboardTarget::parse(&path), Some(DashboardTarget::Page(page.clone())), "{path}");
            assert!(page.get().is_some() || page.post().is_some(), "{path} takes no method");
            assert!(path.split('/').count() <= MAX_SEGMENTS + 1, "{path} is too long");
            if let Some(short) = path.strip_suffix('/').filter(|short| !short.is_empty()) {
                assert_eq!(DashboardTarget::parse(short), Some(DashboardTarget::Redirect(page)), "{short}");
            }
        }
    }

    #[test]
    fn bookmarks_of_the_reference_lead_to_pages() {
        for path in ["/accounts/login/", "/accounts/login"] {
            assert_eq!(DashboardTarget::parse(path), Some(DashboardTarget::Redirect(Page::Login())), "{path}");
        }
    }

    #[test]
    fn nothing_else_is_a_page() {
        for path in ["", "//", "/projects", "/projects/", "/projects/x/checks/", "/checks", "/a/b/c/d/e/f/g/h/i/"] {
            assert_eq!(DashboardTarget::parse(path), None, "{path}");
        }
        assert_eq!(
            (DashboardTarget::parse("/robots.txt"), DashboardTarget::parse("/favicon.ico")),
            (Some(DashboardTarget::Robots), Some(DashboardTarget::Favicon))
        );
        let upper = "/projects/6F3A0000-0000-0000-0000-00000000000A/checks/";
        assert!(!matches!(DashboardTarget::parse(upper), Some(DashboardTarget::Page(_))), "one path for one page");
    }
}
