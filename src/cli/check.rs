//! `overdue check`: the flags of its subcommands, and the output of checks, pings and flips.

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::AdminCall;
use super::common_args::{JsonFlag, ProjectFilter, TargetProject, YesFlag};
use crate::admin::check::{self, CheckRow, FlipRow, PingRow};
use crate::admin::{AdminRequest, CheckAction};
use crate::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, FailureThreshold, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;

#[derive(Subcommand)]
pub(super) enum CheckCommand {
    /// List the checks
    List {
        #[command(flatten)]
        project: ProjectFilter,

        /// Tag that a check must have; may be given several times, with commas in the variable
        #[arg(long, env = "OVERDUE_TAG", value_delimiter = ',')]
        tag: Vec<String>,

        /// Status that a check must have; may be given several times, with commas in the variable
        /// [default: any]
        #[arg(
            long,
            env = "OVERDUE_STATUS",
            value_delimiter = ',',
            value_parser = PossibleValuesParser::new(STATUSES_BY_URGENCY)
        )]
        status: Vec<String>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Show all fields of a check
    Show {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Create a check and print its UUID
    Create {
        #[command(flatten)]
        project: TargetProject,

        /// Update the existing check with the same values in these fields, if there is one; may be
        /// given several times, with commas in the variable
        #[arg(
            long,
            env = "OVERDUE_UNIQUE",
            value_name = "FIELD",
            value_delimiter = ',',
            value_parser = unique_parser()
        )]
        unique: Vec<UniqueField>,

        #[command(flatten)]
        fields: Box<CheckFieldsArgs>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Change the given fields of a check
    #[command(arg_required_else_help = true)]
    Set {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        fields: Box<CheckFieldsArgs>,
    },
    /// Stop monitoring a check until it is pinged or resumed
    Pause {
        #[command(flatten)]
        which: CheckSelector,
    },
    /// Resume a paused check; monitoring begins with its next ping
    Resume {
        #[command(flatten)]
        which: CheckSelector,
    },
    /// Show or change when a check alerts
    Alerting {
        #[command(flatten)]
        which: CheckSelector,

        /// Alert only after this number of consecutive failures; the status and the pages show the
        /// first failure at once [new checks: 1]
        #[arg(
            long,
            env = "OVERDUE_AFTER",
            value_name = "N",
            value_parser = parse_failures,
            allow_negative_numbers = true
        )]
        after: Option<FailureThreshold>,

        /// Check that this check depends on, such as that of a router. While the parent is down and
        /// has alerted, missing pings of this check cause no alert; may be given several times,
        /// with commas in the variable; '' for none
        #[arg(
            long,
            env = "OVERDUE_PARENT",
            value_name = "CHECK",
            value_delimiter = ','
        )]
        parent: Option<Vec<String>>,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// Delete a check and its logs
    Delete {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        yes: YesFlag,
    },
    /// List the pings of a check, newest first
    Pings {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
    /// List the status changes of a check, newest first
    Flips {
        #[command(flatten)]
        which: CheckSelector,

        #[command(flatten)]
        json: JsonFlag,
    },
}

#[derive(Args)]
pub(super) struct CheckSelector {
    /// UUID of the check, or its slug or name if no other check has the same
    check: String,

    #[command(flatten)]
    project: ProjectFilter,
}

impl CheckSelector {
    fn request(self, what: CheckAction) -> AdminRequest {
        AdminRequest::OfCheck {
            project: self.project.project,
            check: self.check,
            what,
        }
    }
}

#[derive(Args)]
pub(super) struct CheckFieldsArgs {
    /// Name
    #[arg(long, env = "OVERDUE_NAME", value_parser = check::parse_name)]
    name: Option<Name>,

    /// Slug for ping URLs: a to z, 0 to 9, hyphens and underscores
    #[arg(long, env = "OVERDUE_SLUG", value_parser = check::parse_slug)]
    slug: Option<Slug>,

    /// Tags, separated by spaces
    #[arg(long, env = "OVERDUE_TAGS", value_parser = check::parse_tags)]
    tags: Option<Tags>,

    /// Description
    #[arg(long, env = "OVERDUE_DESC", value_name = "TEXT", value_parser = check::parse_description)]
    desc: Option<Description>,

    /// Expected time between two pings, for a check without a schedule, in seconds or as in 15m, 2h
    /// or 1d [new checks: 86400]
    #[arg(
        long,
        env = "OVERDUE_TIMEOUT",
        value_name = "TIME",
        value_parser = check::parse_seconds,
        allow_negative_numbers = true
    )]
    timeout: Option<Seconds>,

    /// Time by which a ping may be late, in seconds or as in 15m, 2h or 1d [new checks: 3600]
    #[arg(
        long,
        env = "OVERDUE_GRACE",
        value_name = "TIME",
        value_parser = check::parse_seconds,
        allow_negative_numbers = true
    )]
    grace: Option<Seconds>,

    /// Schedule of the expected pings: a cron expression of five fields, or an OnCalendar
    /// expression of systemd
    #[arg(
        long,
        env = "OVERDUE_SCHEDULE",
        value_name = "EXPR",
        value_parser = check::parse_schedule
    )]
    schedule: Option<std::sync::Arc<Schedule>>,

    /// Time zone of the schedule, such as Europe/Riga [new checks: UTC]
    #[arg(long, env = "OVERDUE_TZ", value_name = "ZONE", value_parser = Timezone::parse)]
    tz: Option<Timezone>,

    /// HTTP methods that count as pings
    #[arg(long, env = "OVERDUE_METHODS", value_parser = methods_parser())]
    methods: Option<bool>,

    /// Ignore pings while the check is paused
    #[arg(
        long,
        env = "OVERDUE_MANUAL_RESUME",
        value_name = "yes|no",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true
    )]
    manual_resume: Option<bool>,

    /// Keywords that mean a start, separated by commas
    #[arg(
        long,
        env = "OVERDUE_START_KW",
        value_name = "WORDS",
        value_parser = check::parse_keywords
    )]
    start_kw: Option<Keywords>,

    /// Keywords that mean a success, separated by commas
    #[arg(
        long,
        env = "OVERDUE_SUCCESS_KW",
        value_name = "WORDS",
        value_parser = check::parse_keywords
    )]
    success_kw: Option<Keywords>,

    /// Keywords that mean a failure, separated by commas
    #[arg(
        long,
        env = "OVERDUE_FAILURE_KW",
        value_name = "WORDS",
        value_parser = check::parse_keywords
    )]
    failure_kw: Option<Keywords>,

    /// Look for keywords in the subjects of mails
    #[arg(
        long,
        env = "OVERDUE_FILTER_SUBJECT",
        value_name = "yes|no",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true
    )]
    filter_subject: Option<bool>,

    /// Look for keywords in the bodies of mails
    #[arg(
        long,
        env = "OVERDUE_FILTER_BODY",
        value_name = "yes|no",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true
    )]
    filter_body: Option<bool>,

    /// Look for keywords in the bodies of HTTP pings
    #[arg(
        long,
        env = "OVERDUE_FILTER_HTTP_BODY",
        value_name = "yes|no",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true
    )]
    filter_http_body: Option<bool>,

    /// Treat a ping without any keyword as a failure; otherwise it is ignored
    #[arg(
        long,
        env = "OVERDUE_FILTER_DEFAULT_FAIL",
        value_name = "yes|no",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true
    )]
    filter_default_fail: Option<bool>,

    /// Channels to notify: UUIDs or names separated by commas, * for all channels of the project,
    /// or '' for none
    #[arg(long, env = "OVERDUE_CHANNELS", value_name = "LIST", value_parser = parse_channels)]
    channels: Option<ChannelSelection>,
}

fn unique_parser() -> impl TypedValueParser<Value = UniqueField> {
    use UniqueField::{Grace, Name, Slug, Tags, Timeout};
    let names = [Name, Slug, Tags, Timeout, Grace].map(UniqueField::name);
    PossibleValuesParser::new(names)
        .try_map(|word| UniqueField::parse(&word).ok_or("no such field"))
}

fn parse_failures(text: &str) -> Result<FailureThreshold, &'static str> {
    FailureThreshold::parse(text.parse().unwrap_or(0))
}

/// Returns a parser of methods; true if only POST counts.
fn methods_parser() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["any", "POST"]).map(|word| word == "POST")
}

fn parse_channels(text: &str) -> Result<ChannelSelection, std::convert::Infallible> {
    Ok(ChannelSelection::parse(text))
}

impl From<CheckFieldsArgs> for Box<CheckEdit> {
    fn from(fields: CheckFieldsArgs) -> Self {
        Self::new(CheckEdit {
            name: fields.name,
            slug: fields.slug,
            tags: fields.tags,
            desc: fields.desc,
            timeout: fields.timeout,
            grace: fields.grace,
            schedule: fields.schedule,
            tz: fields.tz,
            manual_resume: fields.manual_resume,
            post_only: fields.methods,
            start_kw: fields.start_kw,
            success_kw: fields.success_kw,
            failure_kw: fields.failure_kw,
            subject: None,
            subject_fail: None,
            filter_subject: fields.filter_subject,
            filter_body: fields.filter_body,
            filter_http_body: fields.filter_http_body,
            filter_default_fail: fields.filter_default_fail,
            channels: fields.channels,
        })
    }
}

impl From<CheckCommand> for AdminCall {
    fn from(command: CheckCommand) -> Self {
        match command {
            CheckCommand::List {
                project: ProjectFilter { project },
                tag: tags,
                status: statuses,
                json: JsonFlag { json },
            } => Self::new(
                AdminRequest::ListChecks {
                    project,
                    tags,
                    statuses: Some(statuses),
                },
                json,
            ),
            CheckCommand::Show {
                which,
                json: JsonFlag { json },
            } => Self {
                shows_all_fields: true,
                ..Self::new(which.request(CheckAction::Show), json)
            },
            CheckCommand::Create {
                project: TargetProject { project },
                unique,
                fields,
                json: JsonFlag { json },
            } => Self::new(
                AdminRequest::CreateCheck {
                    project,
                    edit: (*fields).into(),
                    unique,
                },
                json,
            ),
            CheckCommand::Set { which, fields } => {
                which.request(CheckAction::Set((*fields).into())).into()
            }
            CheckCommand::Pause { which } => which.request(CheckAction::Pause).into(),
            CheckCommand::Resume { which } => which.request(CheckAction::Resume).into(),
            CheckCommand::Alerting {
                which,
                after,
                parent,
                json: JsonFlag { json },
            } => {
                let parents = parent.map(|parents| {
                    parents
                        .into_iter()
                        .filter(|parent| !parent.is_empty())
                        .collect()
                });
                Self::new(
                    which.request(CheckAction::Alerting { after, parents }),
                    json,
                )
            }
            CheckCommand::Delete {
                which,
                yes: YesFlag { yes },
            } => {
                let deletion_target =
                    (!yes).then(|| format!("the check {:?} with its logs", which.check));
                Self {
                    deletion_target,
                    ..which.request(CheckAction::Delete).into()
                }
            }
            CheckCommand::Pings {
                which,
                json: JsonFlag { json },
            } => Self::new(which.request(CheckAction::Pings), json),
            CheckCommand::Flips {
                which,
                json: JsonFlag { json },
            } => Self::new(which.request(CheckAction::Flips), json),
        }
    }
}

/// Names of the statuses, the most urgent first.
const STATUSES_BY_URGENCY: [&str; 5] = ["down", "grace", "up", "new", "paused"];

/// Returns the checks in the order of the output: in a table the most urgent first, for programs
/// oldest first.
pub(super) fn sort_by_urgency(mut rows: Vec<CheckRow>, json: bool) -> Vec<CheckRow> {
    if !json {
        rows.sort_by_key(|row| {
            STATUSES_BY_URGENCY
                .iter()
                .position(|status| *status == row.status)
        });
    }
    rows
}

/// Headings of the table of checks.
pub(super) const HEADINGS: [&str; 8] = [
    "UUID",
    "PROJECT",
    "NAME",
    "SLUG",
    "TAGS",
    "STATUS",
    "LAST PING",
    "NEXT PING",
];

/// Returns a row of that table.
pub(super) fn cells(row: &CheckRow) -> [String; 8] {
    let last = row.last_ping.clone().unwrap_or_default();
    let next = row.next_ping.clone().unwrap_or_default();
    let [project, name, slug, tags, status] =
        [&row.project, &row.name, &row.slug, &row.tags, &row.status].map(Clone::clone);
    [
        row.uuid.to_string(),
        project,
        name,
        slug,
        tags,
        status,
        last,
        next,
    ]
}

/// Headings of the table of pings.
pub(super) const PING_HEADINGS: [&str; 9] = [
    "N",
    "DATE",
    "TYPE",
    "EXIT",
    "DURATION",
    "METHOD",
    "FROM",
    "USER AGENT",
    "BODY BYTES",
];

/// Returns a row of that table.
pub(super) fn ping_cells(row: &PingRow) -> [String; 9] {
    fn shown(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let method = if row.method.is_empty() {
        &row.scheme
    } else {
        &row.method
    };
    let duration = row.duration.map(|seconds| format!("{seconds:.2}"));
    let body = row.body_bytes.to_string();
    let from = shown(row.remote_addr);
    [
        row.n.to_string(),
        row.date.clone(),
        row.kind.clone(),
        shown(row.exit),
        shown(duration),
        method.clone(),
        from,
        row.ua.clone(),
        body,
    ]
}

/// Returns a row of the table of flips.
pub(super) fn flip_cells(row: &FlipRow) -> [String; 3] {
    [row.timestamp.clone(), row.from.clone(), row.to.clone()]
}
