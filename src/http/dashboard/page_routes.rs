//! Table of the pages: their paths, the resources that they belong to, and the rights that they
//! require. Links are written from the same table.

use std::fmt;

use uuid::Uuid;

use super::assets::{self, File};
use crate::channels;
use crate::docs::{CHAPTERS, Chapter};
use crate::domain::channel::ChannelKind;
use crate::domain::ids::UniqueKey;
use crate::domain::status_page::StatusPageAddress;
use crate::domain::user::one_time_link::LinkCode;
use crate::http::common::path_segment::PathSegment;
use crate::http::common::request::BaseUrl;

/// Right required to see a page or to send its form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredRight {
    /// No right: the page is public.
    Public,
    /// The viewer is signed in.
    SignedIn,
    /// The viewer may see the project of the page.
    Read,
    /// The viewer may change the project of the page.
    Write,
    /// The viewer is an owner of the server.
    Owner,
}

/// Resource that a page belongs to, by the UUID in its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Scope {
    Server,
    Project(Uuid),
    Check(Uuid),
    Channel(Uuid),
}

impl PathSegment for LinkCode {
    fn example() -> Option<Self> {
        Some(Self::EXAMPLE)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

impl PathSegment for StatusPageAddress {
    fn example() -> Option<Self> {
        Self::parse("example").ok()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.as_str());
    }
}

impl PathSegment for &'static ChannelKind {
    fn example() -> Option<Self> {
        channels::all_kinds().next()
    }

    fn parse(text: &str) -> Option<Self> {
        channels::find_kind(text)
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.name);
    }
}

impl PathSegment for &'static Chapter {
    fn example() -> Option<Self> {
        CHAPTERS.first()
    }

    fn parse(text: &str) -> Option<Self> {
        CHAPTERS.iter().find(|chapter| chapter.slug == text)
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.slug);
    }
}

/// Declares [`Page`] from its table. A segment in quotation marks is fixed; every other one is a
/// field of the page.
macro_rules! pages {
    (@write $out:ident, $fixed:literal) => { $out.push_str($fixed) };
    (@write $out:ident, $field:ident) => { PathSegment::write($field, $out) };
    (@fixed $fixed:literal) => { $fixed };
    (@fixed $field:ident) => { "" };
    ($($(#[$doc:meta])* $name:ident($($field:ident: $type:ty),*) of $scope:expr, [$($segment:tt)*]
        $(, get $get:ident)? $(, post $post:ident)?;)*) => {
        /// A page of the dashboard.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Page {
            $($(#[$doc])* $name($($type),*)),*
        }

        impl Page {
            /// Fixed segments of all paths.
            pub(crate) const FIXED_SEGMENTS: &[&str] = &[$($(pages!(@fixed $segment),)*)*];

            /// One page of each kind.
            pub fn examples() -> Vec<Self> {
                [$(try_build(|| Some(Self::$name($(<$type as PathSegment>::example()?),*)))),*]
                    .into_iter()
                    .flatten()
                    .collect()
            }

            /// Finds the page for the segments of a path.
            fn from_segments(segments: &[&str]) -> Option<Self> {
                match *segments {
                    $([$($segment),*] => {
                        Some(Self::$name($(<$type as PathSegment>::parse($field)?),*))
                    })*
                    _ => None,
                }
            }

            /// Writes the path of the page.
            fn write(&self, out: &mut String) {
                match self {
                    $(Self::$name($($field),*) => {
                        $(out.push('/'); pages!(@write out, $segment);)*
                        out.push_str(pages!(@end $($segment)*));
                    })*
                }
            }

            /// Resource that the page belongs to.
            #[allow(unused_variables, reason = "not every page belongs to what its path names")]
            pub fn scope(&self) -> Scope {
                match self {
                    $(Self::$name($($field),*) => $scope),*
                }
            }

            /// Right required to see the page. `None`: the page has no GET.
            pub fn get(&self) -> Option<RequiredRight> {
                match self {
                    $(Self::$name(..) => pages!(@need $($get)?)),*
                }
            }

            /// Right required to send the form of the page. `None`: the page has no form.
            pub fn post(&self) -> Option<RequiredRight> {
                match self {
                    $(Self::$name(..) => pages!(@need $($post)?)),*
                }
            }
        }

    };
    (@need) => { None };
    (@need $need:ident) => { Some(RequiredRight::$need) };
    (@end $($segment:tt)*) => { trailing_slash(&[$(stringify!($segment)),*]) };
}

pages! {
    /// Sign-in form.
    Login() of Scope::Server, ["login"], get Public, post Public;
    /// Second step of signing in.
    SecondStep() of Scope::Server, ["login" "code"], get Public, post Public;
    /// Signs in with a passkey.
    LoginPasskey() of Scope::Server, ["login" "passkey"], get Public, post Public;
    /// Starts signing in at a provider, or connecting an account with it.
    LoginProvider(number: u64) of Scope::Server, ["login" "provider" number], get Public;
    /// Receives the browser from a provider.
    LoginCallback() of Scope::Server, ["login" "callback"], get Public;
    /// Signs out.
    Logout() of Scope::Server, ["logout"], post Public;
    /// Creates the first owner, with a code that is entered.
    Setup() of Scope::Server, ["setup"], get Public, post Public;
    /// Creates the first owner, with the code of a link.
    SetupCode(code: LinkCode) of Scope::Server, ["setup" code], get Public;
    /// Sets the first password of an invited user.
    Invite(code: LinkCode) of Scope::Server, ["invite" code], get Public, post Public;
    /// Resets a password.
    Reset(code: LinkCode) of Scope::Server, ["reset" code], get Public, post Public;
    /// List of projects, or the checks of the only project.
    Projects() of Scope::Server, [], get SignedIn;
    /// Creates a project.
    AddProject() of Scope::Server, ["projects" "add"], get Owner, post Owner;
    /// Settings of a project.
    Settings(project: Uuid) of Scope::Project(*project), ["projects" project "settings"], get Read;
    /// Renames a project.
    SettingsName(project: Uuid) of Scope::Project(*project),
        ["projects" project "settings" "name"], post Write;
    /// Creates a key.
    SettingsKeys(project: Uuid) of Scope::Project(*project),
        ["projects" project "settings" "keys"], post Write;
    /// Revokes or renames a key.
    Key(project: Uuid, key: u64) of Scope::Project(*project),
        ["projects" project "settings" "keys" key], get Write, post Write;
    /// Export of a project as a file.
    Export(project: Uuid) of Scope::Project(*project),
        ["projects" project "export.toml"], get Write;
    /// Sets the limits of a project.
    SettingsLimits(project: Uuid) of Scope::Project(*project),
        ["projects" project "settings" "limits"], post Owner;
    /// Deletes a project.
    DeleteProject(project: Uuid) of Scope::Project(*project),
        ["projects" project "remove"], post Owner;
    /// Audit log of a project.
    AuditOfProject(project: Uuid) of Scope::Project(*project),
        ["projects" project "audit"], get Write;
    /// Badges of a project.
    Badges(project: Uuid) of Scope::Project(*project), ["projects" project "badges"], get Read;
    /// Public status pages of a project.
    StatusPages(project: Uuid) of Scope::Project(*project),
        ["projects" project "status-pages"], get Write, post Write;
    /// A status page of a project, as a form.
    EditStatusPage(project: Uuid, page: Uuid) of Scope::Project(*project),
        ["projects" project "status-pages" page], get Write, post Write;
    /// Deletes a status page.
    DeleteStatusPage(project: Uuid, page: Uuid) of Scope::Project(*project),
        ["projects" project "status-pages" page "remove"], post Write;
    /// A public status page.
    PublicStatus(address: StatusPageAddress) of Scope::Server, ["status" address], get Public;
    /// Maintenance windows of a project.
    Windows(project: Uuid) of Scope::Project(*project),
        ["projects" project "windows"], get Read, post Write;
    /// Ends a maintenance window.
    EndWindow(project: Uuid, window: Uuid) of Scope::Project(*project),
        ["projects" project "windows" window "remove"], post Write;
    /// Deliveries of a project's alerts.
    Deliveries(project: Uuid) of Scope::Project(*project),
        ["projects" project "deliveries"], get Read;
    /// Sends an alert again.
    RetryDelivery(project: Uuid, number: u64) of Scope::Project(*project),
        ["projects" project "deliveries" number "retry"], post Write;
    /// List of users, with a form to invite one.
    Users() of Scope::Server, ["users"], get Owner, post Owner;
    /// A user.
    User(user: Uuid) of Scope::Server, ["users" user], get Owner, post Owner;
    /// Status of the server.
    System() of Scope::Server, ["system"], get Owner;
    /// Machines of the cluster.
    Machines() of Scope::Server, ["system" "machines"], get Owner;
    /// Audit log of the server.
    Audit() of Scope::Server, ["system" "audit"], get Owner;
    /// Uploads a file to import.
    Import() of Scope::Server, ["system" "import"], get Owner, post Owner;
    /// Import of an uploaded file.
    ImportJob(import: Uuid) of Scope::Server, ["system" "import" import], get Owner, post Owner;
    /// Scheduled backups of the server.
    Backups() of Scope::Server, ["system" "backups"], get Owner, post Owner;
    /// Backup of the server.
    Backup() of Scope::Server, ["system" "backup"], post Owner;
    /// Search over all projects.
    Search() of Scope::Server, ["search"], get SignedIn;
    /// Account of the viewer.
    Account() of Scope::Server, ["account"], get SignedIn, post SignedIn;
    /// Changes the password of the viewer.
    AccountPassword() of Scope::Server, ["account" "password"], post SignedIn;
    /// Second factor of the viewer.
    AccountTotp() of Scope::Server, ["account" "totp"], get SignedIn, post SignedIn;
    /// Passkeys of the viewer.
    AccountPasskeys() of Scope::Server, ["account" "passkeys"], get SignedIn, post SignedIn;
    /// Options for the browser that creates a passkey.
    AccountPasskeyOptions() of Scope::Server, ["account" "passkeys" "options"], get SignedIn;
    /// Disconnects the account from its provider.
    AccountIdentity() of Scope::Server, ["account" "identity"], post SignedIn;
    /// Settings of summaries by mail.
    AccountSummary() of Scope::Server, ["account" "summary"], get SignedIn, post SignedIn;
    /// Saves the list preferences of the viewer.
    AccountList() of Scope::Server, ["account" "list"], post SignedIn;
    /// Pins a check for the viewer, or unpins it.
    AccountPins() of Scope::Server, ["account" "pins"], post SignedIn;
    /// Saves or deletes a filter of the viewer.
    AccountFilters() of Scope::Server, ["account" "filters"], post SignedIn;
    /// Ends sessions of the viewer.
    AccountSessions() of Scope::Server, ["account" "sessions"], post SignedIn;
    /// List of checks.
    Checks(project: Uuid) of Scope::Project(*project), ["projects" project "checks"], get Read;
    /// List of the checks of all projects.
    AllChecks() of Scope::Server, ["checks"], get SignedIn;
    /// Live updates of the list of checks.
    Events(project: Uuid) of Scope::Project(*project),
        ["projects" project "checks" "events"], get Read;
    /// List of the chapters of the documentation.
    Chapters() of Scope::Server, ["docs"], get Public;
    /// A chapter of the documentation.
    Chapter(chapter: &'static Chapter) of Scope::Server, ["docs" chapter], get Public;
    /// Bulk actions on checks.
    Bulk(project: Uuid) of Scope::Project(*project),
        ["projects" project "checks" "bulk"], post Write;
    /// Bulk actions on checks of all projects.
    BulkOfAll() of Scope::Server, ["checks" "bulk"], post SignedIn;
    /// Undoes an action on checks of all projects.
    UndoOfAll(number: u64) of Scope::Server, ["checks" "undo" number], post SignedIn;
    /// Undoes an action on checks.
    Undo(project: Uuid, number: u64) of Scope::Project(*project),
        ["projects" project "checks" "undo" number], post Write;
    /// Form for a new check.
    AddCheck(project: Uuid) of Scope::Project(*project),
        ["projects" project "checks" "add"], get Write, post Write;
    /// Overview of a check.
    Check(check: Uuid) of Scope::Check(*check), ["checks" check "details"], get Read;
    /// Log of a check.
    Log(check: Uuid) of Scope::Check(*check), ["checks" check "log"], get Read;
    /// A ping of a check.
    Ping(check: Uuid, n: u64) of Scope::Check(*check), ["checks" check "pings" n], get Read;
    /// The run that a ping ended, beside another run.
    CompareRuns(check: Uuid, n: u64) of Scope::Check(*check),
        ["checks" check "pings" n "compare"], get Read;
    /// Body of a ping, as a file.
    Body(check: Uuid, n: u64) of Scope::Check(*check), ["checks" check "pings" n "body"], get Read;
    /// Form with the settings of a check.
    EditCheck(check: Uuid) of Scope::Check(*check), ["checks" check "edit"], get Write, post Write;
    /// Pauses a check.
    PauseCheck(check: Uuid) of Scope::Check(*check), ["checks" check "pause"], post Write;
    /// Resumes a check.
    ResumeCheck(check: Uuid) of Scope::Check(*check), ["checks" check "resume"], post Write;
    /// Pings a check.
    PingCheck(check: Uuid) of Scope::Check(*check), ["checks" check "ping"], post Write;
    /// Sets the channels of a check.
    ChannelsOfCheck(check: Uuid) of Scope::Check(*check), ["checks" check "channels"], post Write;
    /// Sets the time zone of a check.
    ZoneOfCheck(check: Uuid) of Scope::Check(*check), ["checks" check "zone"], post Write;
    /// Copies a check.
    CopyCheck(check: Uuid) of Scope::Check(*check), ["checks" check "copy"], post Write;
    /// Deletes a check.
    DeleteCheck(check: Uuid) of Scope::Check(*check),
        ["checks" check "remove"], get Write, post Write;
    /// Channels of a project.
    Channels(project: Uuid) of Scope::Project(*project),
        ["projects" project "integrations"], get Read;
    /// Form for a new channel of some kind.
    AddChannel(project: Uuid, kind: &'static ChannelKind) of Scope::Project(*project),
        ["projects" project "integrations" "add" kind], get Write, post Write;
    /// Form with the settings of a channel.
    EditChannel(channel: Uuid) of Scope::Channel(*channel),
        ["integrations" channel "edit"], get Write, post Write;
    /// Sets the checks of a channel.
    ChecksOfChannel(channel: Uuid) of Scope::Channel(*channel),
        ["integrations" channel "checks"], post Write;
    /// Sends a test message to a channel.
    TestChannel(channel: Uuid) of Scope::Channel(*channel),
        ["integrations" channel "test"], post Write;
    /// Enables a disabled channel.
    EnableChannel(channel: Uuid) of Scope::Channel(*channel),
        ["integrations" channel "enable"], post Write;
    /// Deletes a channel.
    DeleteChannel(channel: Uuid) of Scope::Channel(*channel),
        ["integrations" channel "remove"], get Write, post Write;
    /// Preview of a schedule that is being edited.
    Preview() of Scope::Server, ["checks" "preview"], get SignedIn;
    /// Redirects from a unique key, as in links of messages, to its check.
    UniqueKeyRedirect(key: UniqueKey) of Scope::Server, ["cloaked" key], get SignedIn;
}

impl fmt::Display for Page {
    /// Writes the path of the page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.write(&mut path);
        f.write_str(&path)
    }
}

/// Calls a function that builds a page. Exists for the `?` in it.
fn try_build(make: impl FnOnce() -> Option<Page>) -> Option<Page> {
    make()
}

/// End of a path: a slash, unless the last segment is a file name.
fn trailing_slash(segments: &[&str]) -> &'static str {
    match segments.last() {
        Some(last) if last.contains('.') => "",
        _ => "/",
    }
}

/// Target of a path of the dashboard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DashboardTarget {
    /// A page.
    Page(Page),
    /// Redirect to a page, from a path without the last slash or a path of Healthchecks.
    Redirect(Page),
    /// A static file.
    Asset(&'static File),
    /// Favicon that browsers request without a link.
    Favicon,
    /// `robots.txt`, which excludes all robots.
    Robots,
}

impl DashboardTarget {
    /// Parses a path. `None` if it has no target in the dashboard.
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
        let page = Page::from_segments(segments).or_else(|| page_of_healthchecks_path(segments))?;
        Some(if page.to_string() == path {
            Self::Page(page)
        } else {
            Self::Redirect(page)
        })
    }
}

/// Page for a path that bookmarks of Healthchecks have. Its separate forms for parts of a check are
/// one form here.
fn page_of_healthchecks_path(segments: &[&str]) -> Option<Page> {
    match *segments {
        ["checks", check, "name" | "timeout" | "filtering_rules"] => {
            <Uuid as PathSegment>::parse(check).map(Page::EditCheck)
        }
        ["accounts", "login"] => Some(Page::Login()),
        ["checks", check, "last_ping"] => <Uuid as PathSegment>::parse(check).map(Page::Log),
        _ => None,
    }
}

/// Number of segments of the longest path.
const MAX_SEGMENTS: usize = 6;

/// Link to a page, which begins with the base path of the service.
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
    fn a_written_path_is_parsed_as_the_same_page() {
        for page in Page::examples() {
            let path = page.to_string();
            assert_eq!(
                DashboardTarget::parse(&path),
                Some(DashboardTarget::Page(page.clone())),
                "{path}"
            );
            assert!(
                page.get().is_some() || page.post().is_some(),
                "{path} takes no method"
            );
            assert!(
                path.split('/').count() <= MAX_SEGMENTS + 1,
                "{path} is too long"
            );
            if let Some(short) = path.strip_suffix('/').filter(|short| !short.is_empty()) {
                assert_eq!(
                    DashboardTarget::parse(short),
                    Some(DashboardTarget::Redirect(page)),
                    "{short}"
                );
            }
        }
    }

    #[test]
    fn bookmarks_of_healthchecks_lead_to_pages() {
        for path in ["/accounts/login/", "/accounts/login"] {
            assert_eq!(
                DashboardTarget::parse(path),
                Some(DashboardTarget::Redirect(Page::Login())),
                "{path}"
            );
        }
    }

    #[test]
    fn nothing_else_is_a_page() {
        for path in [
            "",
            "//",
            "/projects",
            "/projects/",
            "/projects/x/checks/",
            "/a/b/c/d/e/f/g/h/i/",
        ] {
            assert_eq!(DashboardTarget::parse(path), None, "{path}");
        }
        assert_eq!(
            (
                DashboardTarget::parse("/robots.txt"),
                DashboardTarget::parse("/favicon.ico")
            ),
            (
                Some(DashboardTarget::Robots),
                Some(DashboardTarget::Favicon)
            )
        );
        let upper = "/projects/6F3A0000-0000-0000-0000-00000000000A/checks/";
        assert!(
            !matches!(
                DashboardTarget::parse(upper),
                Some(DashboardTarget::Page(_))
            ),
            "one path for one page"
        );
    }
}
