//! Parts of the form of a check: what changes or stays as one when two users edit a check at the
//! same time.

use sha2::{Digest as _, Sha256};

use super::form_fields::{CheckFormFields, ExpectationKind, is_box};
use crate::domain::check_edit::fields::{self, CheckField};

/// Bytes of the digest of a part.
const DIGEST_BYTES: usize = 8;

/// Part of the form.
#[derive(Clone, Copy)]
pub(super) enum FormPart {
    /// Field whose input or box has a text.
    Text(&'static CheckField),
    /// Period or schedule.
    Schedule,
    TimeZone,
    Grace,
    Channels,
    FailureThreshold,
    Parents,
}

impl FormPart {
    /// Returns all parts, in the order of the form.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let middle = [
            Self::Schedule,
            Self::TimeZone,
            Self::Grace,
            Self::Channels,
            Self::FailureThreshold,
            Self::Parents,
        ];
        let names = fields::NAME_FIELDS.into_iter().map(Self::Text);
        let rules = fields::rule_fields().map(Self::Text);
        names.chain(middle).chain(rules)
    }

    /// Label for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Text(field) => field.label,
            Self::Schedule => "Expected",
            Self::TimeZone => fields::TZ.label,
            Self::Grace => fields::GRACE.label,
            Self::Channels => "Alerts",
            Self::FailureThreshold => "Failures in a row",
            Self::Parents => "Depends on",
        }
    }

    /// Value for people. `channel_name`: name of a channel, by its UUID.
    pub(super) fn describe(
        self,
        form: &CheckFormFields,
        channel_name: impl Fn(&str) -> Option<String>,
    ) -> String {
        match self {
            Self::Text(field) if is_box(field) => {
                let is_ticked = form.is_ticked(field.form_name);
                if is_ticked { "yes" } else { "no" }.to_owned()
            }
            Self::Text(field) => form.text(field.form_name).to_owned(),
            Self::Schedule => match form.expects {
                ExpectationKind::Period => {
                    format!("every {} {}", form.period.number, form.period.unit)
                }
                ExpectationKind::Cron => form.cron.clone(),
                ExpectationKind::OnCalendar => form.oncalendar.clone(),
            },
            Self::TimeZone => form.tz.clone(),
            Self::Grace => format!("{} {}", form.grace.number, form.grace.unit),
            Self::Channels => {
                let names = form.channels.iter().filter_map(|uuid| channel_name(uuid));
                names.collect::<Vec<_>>().join(", ")
            }
            Self::FailureThreshold => form.after.clone(),
            Self::Parents => form.parents.join(", "),
        }
    }

    /// Value for comparisons. Inputs that have no effect, such as the period of a check with a
    /// schedule, are left out.
    fn value(self, form: &CheckFormFields) -> String {
        match self {
            // A browser sends other line ends.
            Self::Text(field) => form.text(field.form_name).replace("\r\n", "\n"),
            Self::Channels => {
                let mut channels = form.channels.clone();
                channels.sort();
                channels.join(",")
            }
            Self::Parents => {
                let mut parents = form.parents.clone();
                parents.sort();
                format!("{parents:?}")
            }
            Self::Schedule => {
                let text = self.describe(form, |_| None).replace("\r\n", "\n");
                format!("{} {text}", form.expects.name())
            }
            Self::TimeZone | Self::Grace | Self::FailureThreshold => self.describe(form, |_| None),
        }
    }

    fn digest(self, form: &CheckFormFields) -> String {
        Sha256::digest(self.value(form))
            .iter()
            .take(DIGEST_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Copies the part from one form to another.
    fn copy(self, from: &CheckFormFields, to: &mut CheckFormFields) {
        match self {
            Self::Text(field) => to.set_text(field, from.text(field.form_name).to_owned()),
            Self::Schedule => {
                to.expects = from.expects;
                to.period = from.period.clone();
                to.cron.clone_from(&from.cron);
                to.oncalendar.clone_from(&from.oncalendar);
            }
            Self::TimeZone => to.tz.clone_from(&from.tz),
            Self::Grace => to.grace = from.grace.clone(),
            Self::Channels => to.channels.clone_from(&from.channels),
            Self::FailureThreshold => to.after.clone_from(&from.after),
            Self::Parents => to.parents.clone_from(&from.parents),
        }
    }
}

impl CheckFormFields {
    /// Digests of all parts. They show which of them were changed since.
    pub(super) fn digests(&self) -> String {
        FormPart::all().map(|part| part.digest(self)).collect()
    }

    /// Takes over the parts that were changed in `stored` alone since `digests_before`. Returns the
    /// parts that were changed in both, to different values.
    pub(super) fn merge(&mut self, digests_before: &str, stored: &Self) -> Vec<FormPart> {
        let mut conflicts = Vec::new();
        for (number, part) in FormPart::all().enumerate() {
            let begin = number * DIGEST_BYTES * 2;
            let before = digests_before.get(begin..begin + DIGEST_BYTES * 2);
            let stored_digest = part.digest(stored);
            let own_digest = part.digest(self);
            let is = |digest: &str| before == Some(digest);
            if stored_digest == own_digest || is(&stored_digest) {
                continue;
            }
            if is(&own_digest) {
                part.copy(stored, self);
            } else {
                conflicts.push(part);
            }
        }
        conflicts
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::super::page_request::Query;
    use super::*;

    /// Returns a form in which each part has one of three values. `choices` are used in turn.
    fn form(choices: &[usize]) -> CheckFormFields {
        let mut choices = choices.iter().copied().cycle();
        let mut pairs = Vec::new();
        let mut add = |name: &str, values: [&str; 3]| {
            let value = choices
                .next()
                .and_then(|choice| values.get(choice).copied());
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                pairs.push((name.to_owned(), value.to_owned()));
            }
        };
        for field in fields::NAME_FIELDS.into_iter().chain(fields::rule_fields()) {
            match is_box(field) {
                true => add(field.form_name, ["", "1", "1"]),
                false => add(field.form_name, ["", "one", "two\r\nlines"]),
            }
        }
        add("expects", ["period", "cron", "oncalendar"]);
        add("period", ["1", "2", "3"]);
        add("cron", ["* * * * *", "0 * * * *", "0 0 * * *"]);
        add("oncalendar", ["daily", "hourly", "weekly"]);
        add("tz", ["UTC", "Europe/Riga", "Asia/Tokyo"]);
        add("grace", ["1", "2", "3"]);
        add("channel", ["", "a", "b"]);
        add("after", ["1", "2", "3"]);
        add("parent", ["", "a", "b"]);
        CheckFormFields::from_query(&Query(pairs))
    }

    fn values(form: &CheckFormFields) -> Vec<String> {
        FormPart::all().map(|part| part.value(form)).collect()
    }

    proptest! {
        #[test]
        fn a_merge_keeps_every_change_and_reports_every_conflict(
            before in vec(0..3_usize, 40),
            own in vec(0..5_usize, 40),
            stored in vec(0..5_usize, 40),
        ) {
            // Most parts stay as they were.
            let changed = |choices: Vec<usize>| -> Vec<usize> {
                let pairs = choices.into_iter().zip(&before);
                pairs.map(|(choice, before)| if choice < 3 { choice } else { *before }).collect()
            };
            let before_form = form(&before);
            let own_form = form(&changed(own));
            let stored_form = form(&changed(stored));
            let mut merged = own_form.clone();
            let conflicts = merged.merge(&before_form.digests(), &stored_form);
            let conflicts: Vec<_> = conflicts.iter().map(|part| part.label()).collect();
            let before_values = values(&before_form);
            let own_values = values(&own_form);
            let stored_values = values(&stored_form);
            for (number, part) in FormPart::all().enumerate() {
                let [before, own, stored] =
                    [&before_values, &own_values, &stored_values].map(|values| &values[number]);
                let is_conflict = own != stored && own != before && stored != before;
                prop_assert_eq!(conflicts.contains(&part.label()), is_conflict, "{}", part.label());
                let expected = if own == before { stored } else { own };
                prop_assert_eq!(&part.value(&merged), expected, "{}", part.label());
            }
        }
    }
}
