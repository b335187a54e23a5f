//! Form fields of a check: created from settings, parsed from a request, and converted to an edit
//! by the rules of the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::{
    CheckFieldType, CheckFieldValue, InvalidValue, TextRules,
};
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::formatting::format_seconds;
use crate::domain::number::{FailureThreshold, Seconds};
use crate::domain::schedule::{Schedule, ScheduleKind};
use crate::domain::timezone::Timezone;
use crate::http::dashboard::page_request::Query;

/// Name of the form field for a parent. The field may occur several times.
pub(crate) const PARENT_FIELD: &str = "parent";

/// Text of a ticked box.
const TICKED: &str = "1";

/// Kind of schedule of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpectationKind {
    /// A ping in every period.
    Period,
    /// Pings at the times of a cron expression.
    Cron,
    /// Pings at the times of OnCalendar expressions.
    OnCalendar,
}

/// Units of durations: name in forms, label, seconds.
pub(crate) const DURATION_UNITS: [(&str, &str, u64); 4] = [
    ("d", "days", 86_400),
    ("h", "hours", 3_600),
    ("min", "min", 60),
    ("s", "s", 1),
];

/// A duration as entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurationInput {
    /// Number of units.
    pub(crate) number: String,
    /// Name of the unit in forms.
    pub(crate) unit: String,
}

/// Form fields, as entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckFormFields {
    /// Texts of [`form_fields`] by their names in the form. That of a box is empty unless the box
    /// is ticked.
    texts: BTreeMap<&'static str, String>,
    pub(crate) expects: ExpectationKind,
    pub(crate) period: DurationInput,
    pub(crate) cron: String,
    pub(crate) oncalendar: String,
    pub(crate) tz: String,
    pub(crate) grace: DurationInput,
    /// UUIDs of its channels.
    pub(crate) channels: Vec<String>,
    pub(crate) after: String,
    /// Names of its parents.
    pub(crate) parents: Vec<String>,
}

/// Error in a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckFormError {
    /// Name of the field in the form.
    pub(crate) field: &'static str,
    /// Label of the field.
    pub(crate) label: &'static str,
    /// Explanation of the error and of valid values.
    pub(crate) text: String,
}

impl ExpectationKind {
    /// Name in the form.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Period => "period",
            Self::Cron => "cron",
            Self::OnCalendar => "oncalendar",
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "cron" => Self::Cron,
            "oncalendar" => Self::OnCalendar,
            _ => Self::Period,
        }
    }
}

impl DurationInput {
    /// Converts seconds to the largest unit that divides them.
    fn from_seconds(seconds: i64) -> Self {
        let seconds = seconds.unsigned_abs();
        let (unit, size) = DURATION_UNITS
            .iter()
            .find(|(.., size)| seconds.is_multiple_of(*size))
            .map_or(("s", 1), |(unit, _, size)| (*unit, *size));
        Self {
            number: (seconds / size).to_string(),
            unit: unit.into(),
        }
    }

    fn from_query(query: &Query, number: &str, unit: &str) -> Self {
        Self {
            number: query.get(number).trim().into(),
            unit: query.get(unit).into(),
        }
    }

    /// Parses the duration as seconds, or returns the error.
    pub(crate) fn parse_seconds(&self) -> Result<Seconds, String> {
        let (.., size) = DURATION_UNITS
            .iter()
            .find(|(unit, ..)| *unit == self.unit)
            .ok_or("Choose a unit.")?;
        let number: u64 = self.number.parse().map_err(|_| "Enter a whole number.")?;
        let seconds = i64::try_from(number.saturating_mul(*size)).unwrap_or(i64::MAX);
        Seconds::parse(seconds).map_err(|_| "Between 1 minute and 365 days.".into())
    }
}

impl CheckFormFields {
    /// Creates the fields from settings, with channels as UUIDs and parents as names.
    pub(crate) fn from_settings(
        settings: &CheckSettings,
        channels: Vec<String>,
        parents: Vec<String>,
    ) -> Self {
        let text = |kind: ScheduleKind| {
            let schedule = settings
                .schedule
                .as_ref()
                .filter(|schedule| schedule.kind() == kind);
            schedule.map_or_else(String::new, |schedule| schedule.text().to_owned())
        };
        let texts = form_fields().map(|field| {
            let text = match (field.value(settings), field.field_type.box_values()) {
                (Some(value), Some([_, ticked])) if value == ticked => TICKED.into(),
                (Some(CheckFieldValue::Number(0)), None) | (_, Some(_)) | (None, _) => {
                    String::new()
                }
                (Some(CheckFieldValue::Number(seconds)), None) => format_seconds(seconds),
                (Some(value), None) => value.into_text(),
            };
            (field.form_name, text)
        });
        Self {
            texts: texts.collect(),
            expects: match settings.schedule.as_ref().map(|schedule| schedule.kind()) {
                None => ExpectationKind::Period,
                Some(ScheduleKind::Cron) => ExpectationKind::Cron,
                Some(ScheduleKind::OnCalendar) => ExpectationKind::OnCalendar,
            },
            period: DurationInput::from_seconds(settings.timeout.get()),
            cron: text(ScheduleKind::Cron),
            oncalendar: text(ScheduleKind::OnCalendar),
            tz: settings.tz.name().into(),
            grace: DurationInput::from_seconds(settings.grace.get()),
            channels,
            after: settings.failure_threshold.get().to_string(),
            parents,
        }
    }

    /// Parses the fields of a submitted form. Browsers send CR LF as line end, and omit boxes that
    /// are not ticked.
    pub(crate) fn from_query(query: &Query) -> Self {
        let text = |name: &str| query.get(name).replace("\r\n", "\n");
        let texts = form_fields().map(|field| {
            let text = match field.field_type {
                CheckFieldType::Text(TextRules {
                    pattern: Some(_), ..
                }) => text(field.form_name).trim().to_owned(),
                _ if is_box(field) && query.has(field.form_name) => TICKED.into(),
                _ => text(field.form_name),
            };
            (field.form_name, text)
        });
        Self {
            texts: texts.collect(),
            expects: ExpectationKind::parse(query.get("expects")),
            period: DurationInput::from_query(query, "period", "period_unit"),
            cron: text("cron"),
            oncalendar: text("oncalendar"),
            tz: text("tz").trim().into(),
            grace: DurationInput::from_query(query, "grace", "grace_unit"),
            channels: query.get_all("channel").map(str::to_owned).collect(),
            after: text("after").trim().into(),
            parents: query
                .get_all(PARENT_FIELD)
                .map(str::trim)
                .filter(|form| !form.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Text of a field, by its name in the form.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// True if the box of a field is ticked, by its name in the form.
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }

    /// Sets the text of a field.
    pub(super) fn set_text(&mut self, field: &CheckField, text: String) {
        self.texts.insert(field.form_name, text);
    }

    /// Converts the fields to an edit and a failure threshold, or returns all errors. A stored
    /// value over the current limit is accepted if it is unchanged.
    pub(crate) fn to_edit(
        &self,
        stored: &CheckSettings,
    ) -> Result<(CheckEdit, FailureThreshold), Vec<CheckFormError>> {
        let mut errors = Vec::new();
        let mut edit = CheckEdit::default();
        self.read_fields(fields::NAME_FIELDS, stored, &mut edit, &mut errors);
        (edit.timeout, edit.schedule) = self.parse_schedule(&mut errors);
        edit.tz = collect_error(
            &mut errors,
            fields::TZ.form_name,
            fields::TZ.label,
            Timezone::parse(&self.tz).map_err(|error| to_sentence(&error.to_string())),
        );
        edit.grace = collect_error(
            &mut errors,
            fields::GRACE.form_name,
            fields::GRACE.label,
            self.grace.parse_seconds(),
        );
        self.read_fields(fields::rule_fields(), stored, &mut edit, &mut errors);
        let after = self
            .after
            .parse()
            .map_err(|_| "Enter a whole number.".to_owned());
        let after = after.and_then(|after| FailureThreshold::parse(after).map_err(to_sentence));
        let after = collect_error(&mut errors, "after", "Failures in a row", after);
        let channels = self.channels.iter().map(|uuid| uuid.as_str().into());
        edit.channels = Some(ChannelSelection::Listed(channels.collect()));
        after
            .filter(|_| errors.is_empty())
            .map(|after| (edit, after))
            .ok_or(errors)
    }

    /// Reads fields into an edit, and adds the errors to `errors`.
    fn read_fields(
        &self,
        fields: impl IntoIterator<Item = &'static CheckField>,
        stored: &CheckSettings,
        edit: &mut CheckEdit,
        errors: &mut Vec<CheckFormError>,
    ) {
        for field in fields {
            let name = field.form_name;
            let read = self
                .field_value(field, stored)
                .and_then(|value| field.set(edit, &value, Some(stored)));
            if let Err(error) = read {
                errors.push(CheckFormError {
                    field: name,
                    label: field.label,
                    text: to_sentence(&error.explanation),
                });
            }
        }
    }

    /// Value of a field. A stored text is unchanged if it differs in its line ends only.
    fn field_value<'a>(
        &self,
        field: &CheckField,
        stored: &'a CheckSettings,
    ) -> Result<CheckFieldValue<'a>, InvalidValue> {
        let text = self.text(field.form_name);
        match (field.field_type.box_values(), field.value(stored)) {
            (Some([_, ticked]), _) if !text.is_empty() => Ok(ticked),
            (Some([unticked, _]), _) => Ok(unticked),
            (None, Some(CheckFieldValue::Text(kept))) if kept.replace("\r\n", "\n") == text => {
                Ok(CheckFieldValue::Text(kept))
            }
            (None, _) => field.field_type.parse_text(text),
        }
    }

    /// Converts the rules for pings to an edit. `None` if a text is too long.
    pub(crate) fn to_rule_edit(&self) -> Option<CheckEdit> {
        let mut edit = CheckEdit::default();
        let mut errors = Vec::new();
        let stored = CheckSettings::default();
        self.read_fields(fields::rule_fields(), &stored, &mut edit, &mut errors);
        errors.is_empty().then_some(edit)
    }

    /// Converts the fields of the schedule to an edit, or returns the first error.
    pub(crate) fn to_schedule_edit(&self) -> Result<CheckEdit, String> {
        let mut errors = Vec::new();
        let (timeout, schedule) = self.parse_schedule(&mut errors);
        let tz = Timezone::parse(&self.tz);
        match errors.pop() {
            Some(errors) => Err(errors.text),
            None if self.expects == ExpectationKind::Period => Ok(CheckEdit {
                timeout,
                ..CheckEdit::default()
            }),
            None => Ok(CheckEdit {
                schedule,
                tz: Some(tz.map_err(|error| to_sentence(&error.to_string()))?),
                ..CheckEdit::default()
            }),
        }
    }

    fn parse_schedule(
        &self,
        errors: &mut Vec<CheckFormError>,
    ) -> (Option<Seconds>, Option<Arc<Schedule>>) {
        let (field, label, text, kind, other) = match self.expects {
            ExpectationKind::Period => {
                return (
                    collect_error(errors, "period", "Period", self.period.parse_seconds()),
                    None,
                );
            }
            ExpectationKind::Cron => (
                "cron",
                "Cron",
                &self.cron,
                ScheduleKind::Cron,
                "This is not a cron expression. Choose OnCalendar.",
            ),
            ExpectationKind::OnCalendar => (
                "oncalendar",
                "OnCalendar",
                &self.oncalendar,
                ScheduleKind::OnCalendar,
                "This is a cron expression. Choose Cron.",
            ),
        };
        let schedule = match Schedule::parse(text) {
            _ if text.trim().is_empty() => Err("Enter an expression.".to_owned()),
            Ok(schedule) if schedule.kind() != kind => Err(other.to_owned()),
            Ok(schedule) => Ok(Arc::new(schedule)),
            Err(error) => Err(to_sentence(&error.to_string())),
        };
        (None, collect_error(errors, field, label, schedule))
    }
}

/// Returns the value of a field, or adds the error to `errors`.
fn collect_error<T>(
    errors: &mut Vec<CheckFormError>,
    field: &'static str,
    label: &'static str,
    read: Result<T, impl Into<String>>,
) -> Option<T> {
    read.map_err(|text| {
        errors.push(CheckFormError {
            field,
            label,
            text: text.into(),
        });
    })
    .ok()
}

/// Fields whose inputs and boxes are read alike.
fn form_fields() -> impl Iterator<Item = &'static CheckField> {
    fields::NAME_FIELDS.into_iter().chain(fields::rule_fields())
}

/// True if the form has a box for the field.
pub(crate) fn is_box(field: &CheckField) -> bool {
    field.field_type.box_values().is_some()
}

/// Capitalizes a text and adds a full stop. Code in it gets quotation marks instead of backticks.
pub(super) fn to_sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    let mut sentence = first;
    for (index, part) in letters.as_str().split('`').enumerate() {
        match index {
            0 => {}
            odd if odd % 2 == 1 => sentence.push('“'),
            _ => sentence.push('”'),
        }
        sentence.push_str(part);
    }
    sentence.push('.');
    sentence
}

#[cfg(test)]
mod tests;
