//! Form fields of a channel kind: generated from its table, and parsed back into keys and values.

use std::collections::BTreeSet;

use super::setting_labels::{capitalize, option_label, setting_label, switch_help};
use crate::domain::channel::{
    ChannelKind, ChannelSettings, MASK, Requirement, SettingField, SettingFieldType, SettingsError,
};
use crate::http::dashboard::page_request::Query;

/// Input element of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// A single line.
    Line,
    /// Several lines.
    Lines,
    /// One of these words, or none.
    Choice(&'static [&'static str]),
    /// Boxes for these words. The value lists the words of ticked boxes.
    Boxes(&'static [&'static str]),
    /// A box that is ticked for `on`.
    Switch,
    /// A line that is not displayed again.
    Secret,
    /// Lines of a name and a value, separated by a colon.
    Pairs,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ChannelFormField {
    pub(super) key: &'static str,
    pub(super) label: String,
    pub(super) help: String,
    pub(super) input: Input,
    pub(super) is_required: bool,
    pub(super) value: String,
    /// Example of a value, with made-up data. May be empty.
    pub(super) example: &'static str,
    /// Placeholder of an empty field. For a secret it says that the stored one is kept.
    pub(super) placeholder: String,
    /// True if a secret is stored that may be removed.
    pub(super) is_removable: bool,
    /// Error in the submitted value.
    pub(super) error: Option<String>,
}

/// Error in the submitted form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ChannelFormError {
    /// Key of the field, if the error is in one field. `name` is the name of the channel.
    pub(super) key: Option<&'static str>,
    pub(super) text: String,
}

impl From<SettingsError> for ChannelFormError {
    fn from(error: SettingsError) -> Self {
        Self {
            key: error.field().map(|field| field.key),
            text: error.problem().to_owned(),
        }
    }
}

/// Fields of a kind: its own fields, and fields that it shares with other kinds.
pub(super) fn form_fields(
    kind: &'static ChannelKind,
    stored: Option<&ChannelSettings>,
    form: Option<&Query>,
) -> [Vec<ChannelFormField>; 2] {
    let entry = |field: &'static SettingField| {
        let mut examples = kind.example.iter();
        let example = examples.find(|(key, _)| *key == field.key);
        let example = example.map_or("", |(_, example)| *example);
        (!field.is_operator_only()).then(|| ChannelFormField {
            example,
            ..ChannelFormField::new(field, stored, form)
        })
    };
    [
        kind.fields.iter().filter_map(entry).collect(),
        kind.common_fields().filter_map(entry).collect(),
    ]
}

impl ChannelFormField {
    /// Options of a choice or of boxes: value and words.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        match self.input {
            Input::Choice(words) | Input::Boxes(words) => words
                .iter()
                .map(|word| (*word, option_label(self.key, word)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// True if the box of a word is ticked.
    pub(super) fn is_ticked(&self, word: &str) -> bool {
        self.value.split(',').any(|item| item.trim() == word)
    }

    fn new(
        field: &'static SettingField,
        stored: Option<&ChannelSettings>,
        form: Option<&Query>,
    ) -> Self {
        let input = match field.field_type {
            SettingFieldType::Header | SettingFieldType::Label => Input::Pairs,
            SettingFieldType::Choice(words) => Input::Choice(words),
            SettingFieldType::Words(words) => Input::Boxes(words),
            SettingFieldType::Flag => Input::Switch,
            SettingFieldType::Text(_) | SettingFieldType::Template(_) => Input::Lines,
            _ if field.is_secret() => Input::Secret,
            _ => Input::Line,
        };
        let own = |stored: &ChannelSettings| masked_value(field.key, stored);
        let value = match (form, stored) {
            // A secret is never sent back: after an error it has to be entered again.
            (Some(_), _) if input == Input::Secret => String::new(),
            (Some(form), _) => submitted_value(input, field.key, form),
            (None, Some(stored)) if input != Input::Secret => own(stored),
            (None, _) => String::new(),
        };
        let kept = stored
            .map(own)
            .filter(|kept| input == Input::Secret && !kept.is_empty());
        let default_text = match &field.requirement {
            Requirement::Default(value) => format!("; {value} if left out"),
            Requirement::Derived {
                description: words, ..
            } => format!("; {words} if left out"),
            _ => String::new(),
        };
        let is_required = matches!(
            field.requirement,
            Requirement::Required | Requirement::RequiredToDeliver
        );
        Self {
            key: field.key,
            label: match field.field_type {
                SettingFieldType::Url if field.key == "api" => "Server of the API".into(),
                _ => setting_label(field.key),
            },
            help: match input {
                Input::Switch => switch_help(field.help),
                _ => format!("{}{default_text}", capitalize(field.help)),
            },
            input,
            is_required: is_required && kept.is_none(),
            value,
            error: None,
            example: "",
            is_removable: kept.is_some() && !is_required,
            placeholder: match kept {
                Some(kept) if kept != MASK => format!("unchanged: {kept}"),
                Some(_) => "unchanged".into(),
                None => String::new(),
            },
        }
    }
}

/// Value of a key in a form: for boxes, the words of ticked ones.
fn submitted_value(input: Input, key: &str, form: &Query) -> String {
    match input {
        Input::Boxes(_) => form.get_all(key).collect::<Vec<_>>().join(","),
        _ => form.get(key).to_owned(),
    }
}

/// Value of a key as it may be displayed. For a pattern, the lines of all its keys.
fn masked_value(key: &str, stored: &ChannelSettings) -> String {
    let Some(prefix) = key.strip_suffix("NAME") else {
        return stored
            .masked()
            .find(|(own, _)| *own == key)
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default();
    };
    let lines = stored
        .masked()
        .filter_map(|(own, value)| Some(format!("{}: {value}", own.strip_prefix(prefix)?)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Keys and values of a form. An empty field is left out; an empty secret keeps the stored one.
pub(super) fn parse_pairs(
    kind: &'static ChannelKind,
    stored: Option<&ChannelSettings>,
    form: &Query,
) -> Result<Vec<(String, String)>, ChannelFormError> {
    let mut pairs = Vec::new();
    let removed: BTreeSet<_> = form.get_all("remove").collect();
    for entry in form_fields(kind, stored, None).into_iter().flatten() {
        let submitted = submitted_value(entry.input, entry.key, form).replace("\r\n", "\n");
        match entry.input {
            Input::Pairs => {
                let prefix = entry.key.strip_suffix("NAME").unwrap_or_default();
                for line in submitted.lines().filter(|line| !line.trim().is_empty()) {
                    let (name, value) = line.split_once(':').ok_or_else(|| ChannelFormError {
                        key: Some(entry.key),
                        text: format!("{}: write each line as Name: value", entry.label),
                    })?;
                    pairs.push((format!("{prefix}{}", name.trim()), value.trim().to_owned()));
                }
            }
            Input::Secret
                if submitted.is_empty()
                    && !entry.placeholder.is_empty()
                    && !removed.contains(entry.key) =>
            {
                let kept = stored
                    .map(|stored| masked_value(entry.key, stored))
                    .unwrap_or_default();
                pairs.push((entry.key.into(), kept));
            }
            // A box that is not ticked is not sent. A stored `off` stays.
            Input::Switch if submitted != "on" => {
                let was = stored.map(|stored| masked_value(entry.key, stored));
                if was.as_deref() == Some("off") {
                    pairs.push((entry.key.into(), "off".into()));
                }
            }
            _ if submitted.trim().is_empty() => {}
            Input::Lines => pairs.push((entry.key.into(), submitted)),
            Input::Line | Input::Choice(_) | Input::Boxes(_) | Input::Switch | Input::Secret => {
                pairs.push((entry.key.into(), submitted.trim().to_owned()));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// Parsing the form of the example of every kind returns the same settings, with secrets kept.
    #[test]
    fn saving_an_unchanged_form_changes_nothing() {
        for kind in channels::all_kinds().filter(|kind| !kind.operator_only) {
            let stored = ChannelSettings::parse(kind, kind.example.iter().copied()).unwrap();
            let shown = form_fields(kind, Some(&stored), None);
            let form: Vec<_> = shown
                .iter()
                .flatten()
                .map(|entry| (entry.key, entry.value.as_str()))
                .collect();
            for secret in stored.secrets() {
                assert!(
                    form.iter().all(|(_, value)| value != &secret),
                    "{} shows a secret",
                    kind.name
                );
            }
            let given = parse_pairs(kind, Some(&stored), &query(&form)).unwrap();
            assert_eq!(stored.replace_with(given).unwrap(), stored, "{}", kind.name);
        }
    }

    #[test]
    fn headers_are_lines_and_secrets_are_kept_or_removed() {
        let webhook = channels::find_kind("webhook").unwrap();
        let given = [
            ("down-url", "https://h.test/"),
            ("headers", ""),
            ("header.NAME", "Authorization: Bearer x\r\n\r\nX-A:b"),
            ("secret", " s "),
        ];
        let made = parse_pairs(webhook, None, &query(&given)).unwrap();
        let stored = ChannelSettings::parse(webhook, made).unwrap();
        assert_eq!(
            (
                stored.get("header.authorization"),
                stored.get("header.x-a"),
                stored.get("secret")
            ),
            (Some("Bearer x"), Some("b"), Some("s"))
        );
        let [own, _] = form_fields(webhook, Some(&stored), None);
        let header = own.iter().find(|entry| entry.key == "header.NAME").unwrap();
        assert_eq!(
            (header.label.as_str(), header.value.as_str()),
            ("Headers", "authorization: ***\nx-a: ***")
        );
        let secret = own.iter().find(|entry| entry.key == "secret").unwrap();
        assert_eq!(
            (
                secret.value.as_str(),
                secret.placeholder.as_str(),
                secret.is_removable
            ),
            ("", "unchanged", true)
        );
        let form = [
            ("down-url", "https://h.test/"),
            ("header.NAME", "authorization: ***"),
            ("remove", "secret"),
        ];
        let settings = stored
            .replace_with(parse_pairs(webhook, Some(&stored), &query(&form)).unwrap())
            .unwrap();
        assert_eq!(
            (
                settings.get("header.authorization"),
                settings.get("header.x-a"),
                settings.get("secret")
            ),
            (Some("Bearer x"), None, None)
        );
        let error = ChannelFormError {
            key: Some("header.NAME"),
            text: "Headers: write each line as Name: value".into(),
        };
        assert_eq!(
            parse_pairs(webhook, None, &query(&[("header.NAME", "no colon")])),
            Err(error)
        );
    }

    #[test]
    fn an_error_is_shown_at_its_field() {
        let ntfy = channels::find_kind("ntfy").unwrap();
        for (given, key) in [
            (&[("url", "no url"), ("topic", "alerts")][..], Some("url")),
            (&[], Some("topic")),
            (&[("topic", "alerts"), ("nothing", "x")], None),
        ] {
            let error = ChannelSettings::parse(ntfy, given.iter().copied()).unwrap_err();
            assert_eq!(ChannelFormError::from(error.clone()).key, key, "{error}");
        }
        let masked = ChannelSettings::parse(
            channels::find_kind("webhook").unwrap(),
            [("down-url", "https://h.test/"), ("secret", "***")],
        );
        assert_eq!(
            ChannelFormError::from(masked.unwrap_err()).key,
            Some("secret")
        );
    }
}
