//! Checks on their way into the database.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{managed, source, status};
use crate::domain::alert::{Held, Telling};
use crate::domain::check::{CheckState, Filters, Run, Settings};
use crate::domain::ids::CheckId;
use crate::domain::imported::ImportedCheck;
use crate::domain::moment::Moment;
use crate::domain::outcomes::{Outcomes, RunOutcome};
use crate::domain::schedule::Schedule;
use crate::domain::text::{Description, Failures, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;

/// A check that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::imported::ImportedCheck`")]
pub struct StagedCheckRow {
    uuid: Uuid,
    badge: Option<Uuid>,
    channels: Vec<Uuid>,
    parents: Vec<Uuid>,
    managed: Option<String>,
    name: String,
    slug: String,
    tags: String,
    desc: String,
    timeout: i64,
    grace: i64,
    schedule: Option<String>,
    tz: String,
    manual_resume: bool,
    post_only: bool,
    start_kw: String,
    success_kw: String,
    failure_kw: String,
    /// subject, body, http_body, default_fail
    filters: [bool; 4],
    /// How often in a row it has to fail until that is told.
    after: u8,
    status: String,
    changed: i64,
    last_ping: Option<i64>,
    run: Option<(i64, Option<Uuid>)>,
    last_duration: Option<i64>,
    n_pings: u64,
    failures: u16,
    /// How the last runs ended, the newest last: `s` success, `f` fail, `m` missed.
    outcomes: String,
    telling: TellingRow,
}

/// Whether its downtime was told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TellingRow {
    Quiet,
    Due {
        at: i64,
        held: String,
        /// The parent that hides it.
        behind: Option<Uuid>,
    },
    Told,
    Unheard,
}

/// What a downtime waits for that is not told yet.
const HELD: [Held; 6] = [Held::Away, Held::Failures, Held::Parent, Held::Behind(CheckId(0)), Held::Window, Held::Trial];

fn outcomes(outcomes: Outcomes) -> String {
    let letters = outcomes.newest_first().map(|outcome| match outcome {
        RunOutcome::Success => 's',
        RunOutcome::Fail => 'f',
        RunOutcome::Missed => 'm',
    });
    letters.collect::<Vec<_>>().into_iter().rev().collect()
}

fn outcomes_of(text: &str) -> Option<Outcomes> {
    let mut outcomes = Outcomes::default();
    for letter in text.chars() {
        outcomes.push(match letter {
            's' => RunOutcome::Success,
            'f' => RunOutcome::Fail,
            'm' => RunOutcome::Missed,
            _ => return None,
        });
    }
    Some(outcomes)
}

impl TellingRow {
    fn new(telling: Telling, behind: Option<Uuid>) -> Self {
        match telling {
            Telling::Quiet => Self::Quiet,
            Telling::Due { at, held } => Self::Due { at: at.micros(), held: held.name().into(), behind },
            Telling::Told => Self::Told,
            Telling::Unheard => Self::Unheard,
        }
    }

    /// What it says, and the parent that hides the check.
    fn telling(self) -> Option<(Telling, Option<Uuid>)> {
        Some(match self {
            Self::Quiet => (Telling::Quiet, None),
            Self::Due { at, held, behind } => {
                let held = HELD.into_iter().find(|known| known.name() == held)?;
                (Telling::Due { at: Moment::from_micros(at), held }, behind)
            }
            Self::Told => (Telling::Told, None),
            Self::Unheard => (Telling::Unheard, None),
        })
    }
}

impl From<ImportedCheck> for StagedCheckRow {
    fn from(check: ImportedCheck) -> Self {
        let ImportedCheck { uuid, badge, created: _, settings, channels, parents, state, behind, managed: source } = check;
        let filters = settings.filters;
        Self {
            uuid,
            badge,
            channels: channels.into(),
            parents: parents.into(),
            managed: managed(source.as_ref()),
            name: settings.name.as_str().into(),
            slug: settings.slug.as_str().into(),
            tags: settings.tags.as_str().into(),
            desc: settings.desc.as_str().into(),
            timeout: settings.timeout.get(),
            grace: settings.grace.get(),
            schedule: settings.schedule.as_ref().map(|schedule| schedule.text().into()),
            tz: settings.tz.name().into(),
            manual_resume: settings.manual_resume,
            post_only: settings.post_only,
            start_kw: settings.start_kw.as_str().into(),
            success_kw: settings.success_kw.as_str().into(),
            failure_kw: settings.failure_kw.as_str().into(),
            filters: [filters.subject, filters.body, filters.http_body, filters.default_fail],
            after: settings.after.get(),
            status: state.status.name().into(),
            changed: state.changed.micros(),
            last_ping: state.last_ping.map(Moment::micros),
            run: state.run.map(|run| (run.start.micros(), run.rid)),
            last_duration: state.last_duration,
            n_pings: state.n_pings,
            failures: state.failures,
            outcomes: outcomes(state.outcomes),
            telling: TellingRow::new(state.telling, behind),
        }
    }
}

impl StagedCheckRow {
    /// The check, or the name of the field that is wrong.
    pub(super) fn check(self) -> Result<ImportedCheck, &'static str> {
        let [subject, body, http_body, default_fail] = self.filters;
        let settings = Settings {
            name: Name::stored(&self.name),
            slug: Slug::stored(&self.slug),
            tags: Tags::stored(&self.tags),
            desc: Description::stored(&self.desc),
            timeout: Seconds::parse(self.timeout).map_err(|_| "timeout")?,
            grace: Seconds::parse(self.grace).map_err(|_| "grace")?,
            schedule: self.schedule.map(|text| Schedule::parse(&text)).transpose().map_err(|_| "schedule")?.map(Arc::new),
            tz: Timezone::parse(&self.tz).map_err(|_| "tz")?,
            manual_resume: self.manual_resume,
            post_only: self.post_only,
            start_kw: Keywords::stored(&self.start_kw),
            success_kw: Keywords::stored(&self.success_kw),
            failure_kw: Keywords::stored(&self.failure_kw),
            filters: Filters { subject, body, http_body, default_fail },
            after: Failures::parse(self.after.into()).map_err(|_| "after")?,
            ..Settings::default()
        };
        let moment = Moment::from_micros;
        let (telling, behind) = self.telling.telling().ok_or("telling")?;
        // It is counted on.
        i64::try_from(self.n_pings).map_err(|_| "n_pings")?;
        let state = CheckState {
            status: status(&self.status).map_err(|_| "status")?,
            changed: moment(self.changed),
            last_ping: self.last_ping.map(moment),
            run: self.run.map(|(start, rid)| Run { start: moment(start), rid }),
            last_duration: self.last_duration,
            n_pings: self.n_pings,
            failures: self.failures,
            outcomes: outcomes_of(&self.outcomes).ok_or("outcomes")?,
            telling,
            ..CheckState::new(moment(self.changed))
        };
        Ok(ImportedCheck {
            uuid: self.uuid,
            badge: self.badge,
            // When it was made is not kept here; a check that nothing has happened to was changed then.
            created: moment(self.changed),
            settings,
            channels: self.channels.into(),
            parents: self.parents.into(),
            state,
            behind,
            managed: source(self.managed.as_deref()).map_err(|_| "managed")?,
        })
    }
}
