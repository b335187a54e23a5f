//! Fields of a check in requests and rows, with the names of the API.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::check::CheckSettings;
use crate::domain::check_edit::field_value::CheckFieldValue;
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::check_edit::{CheckEdit, UniqueField};

/// Fields of a check as members of a JSON object.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct FieldMembers(BTreeMap<String, MemberValue>);

/// Value of a member.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MemberValue {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl From<CheckFieldValue<'_>> for MemberValue {
    fn from(value: CheckFieldValue<'_>) -> Self {
        match value {
            CheckFieldValue::Flag(flag) => Self::Flag(flag),
            CheckFieldValue::Number(number) => Self::Number(number),
            CheckFieldValue::Text(text) => Self::Text(text.into()),
        }
    }
}

impl From<MemberValue> for CheckFieldValue<'_> {
    fn from(value: MemberValue) -> Self {
        match value {
            MemberValue::Flag(flag) => Self::Flag(flag),
            MemberValue::Number(number) => Self::Number(number),
            MemberValue::Text(text) => text.into(),
        }
    }
}

/// Fields that are shown after the names and the state of a check.
fn shown_fields() -> impl Iterator<Item = &'static CheckField> {
    let times = fields::TIME_FIELDS.into_iter().chain([&fields::GRACE]);
    times.chain(fields::rule_fields())
}

impl FieldMembers {
    /// Returns the fields that are shown after the names and the state.
    pub fn from_settings(settings: &CheckSettings) -> Self {
        let member =
            |field: &CheckField| Some((field.name.into(), field.used_value(settings)?.into()));
        Self(shown_fields().filter_map(member).collect())
    }

    fn from_edit(edit: &CheckEdit) -> Self {
        let member =
            |field: &CheckField| Some((field.name.into(), field.edited_value(edit)?.into()));
        Self(fields::FLAG_FIELDS.into_iter().filter_map(member).collect())
    }

    /// Converts the members to an edit. The older names of fields, which only the API takes, are
    /// unknown here.
    fn into_edit(self) -> Result<CheckEdit, String> {
        let mut edit = CheckEdit::default();
        for (name, value) in self.0 {
            let field = fields::FLAG_FIELDS
                .into_iter()
                .find(|field| field.name == name)
                .ok_or_else(|| format!("unknown field {name}"))?;
            field
                .set(&mut edit, &value.into(), Some(&CheckSettings::default()))
                .map_err(|error| format!("{name}: {}", error.explanation))?;
        }
        Ok(edit)
    }
}

impl Serialize for FieldMembers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let names = fields::NAME_FIELDS.into_iter().chain([&fields::CHANNELS]);
        let in_order = names.chain(shown_fields());
        to.collect_map(in_order.filter_map(|field| self.0.get_key_value(field.name)))
    }
}

/// JSON form of an edit.
pub(super) mod edit {
    use super::{CheckEdit, Deserialize, Deserializer, FieldMembers, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(edit: &CheckEdit, to: S) -> Result<S::Ok, S::Error> {
        FieldMembers::from_edit(edit).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Box<CheckEdit>, D::Error> {
        FieldMembers::deserialize(from)?
            .into_edit()
            .map(Box::new)
            .map_err(serde::de::Error::custom)
    }
}

/// JSON form of the fields by which a check is matched.
pub(super) mod unique {
    use super::{Deserialize, Serialize, UniqueField};

    pub(crate) fn serialize<S: serde::Serializer>(
        fields: &[UniqueField],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        fields
            .iter()
            .map(|field| field.name())
            .collect::<Vec<_>>()
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<UniqueField>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let fields: Option<_> = names.iter().map(|name| UniqueField::parse(name)).collect();
        fields.ok_or_else(|| serde::de::Error::custom("unknown field to search by"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::check_edit::ChannelSelection;
    use crate::domain::schedule::Schedule;
    use crate::domain::text::{Keywords, Name, Slug, Tags};
    use crate::domain::timezone::Timezone;

    #[test]
    fn an_edit_is_read_back_unchanged() {
        let settings = CheckSettings {
            name: Name::parse("a b").unwrap(),
            slug: Slug::parse("a-b").unwrap(),
            tags: Tags::parse("x y").unwrap(),
            schedule: Some(Arc::new(Schedule::parse("0 3 * * *").unwrap())),
            tz: Timezone::parse("Europe/Riga").unwrap(),
            manual_resume: true,
            start_kw: Keywords::parse("s").unwrap(),
            failure_kw: Keywords::parse("f, g").unwrap(),
            ..CheckSettings::default()
        };
        let whole = CheckEdit {
            channels: Some(ChannelSelection::Listed(vec!["a".into(), "b".into()])),
            ..CheckEdit::from_settings(&settings)
        };
        assert_eq!(
            whole.clone().apply_to(&CheckSettings::default(), None),
            settings
        );
        for edit in [
            CheckEdit::default(),
            CheckEdit {
                channels: Some(ChannelSelection::All),
                ..CheckEdit::default()
            },
            whole,
        ] {
            let json = serde_json::to_vec(&FieldMembers::from_edit(&edit)).unwrap();
            assert_eq!(
                edit::deserialize(&mut serde_json::Deserializer::from_slice(&json)).unwrap(),
                Box::new(edit)
            );
        }
    }

    #[test]
    fn every_field_of_an_edit_is_described() {
        let schemas: serde_json::Value =
            serde_json::from_str(crate::admin::openapi::SCHEMAS).unwrap();
        let described = schemas["AdminCheckEdit"]["properties"].as_object().unwrap();
        let mut names = fields::FLAG_FIELDS.map(|field| field.name);
        names.sort_unstable();
        let mut described: Vec<_> = described.keys().collect();
        described.sort_unstable();
        assert_eq!(described, names);
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_valid_ones() {
        for (json, part) in [
            (r#"{"name":1}"#.to_owned(), "give text"),
            (r#"{"name":null}"#.to_owned(), "did not match"),
            (r#"{"timeout":"60"}"#.to_owned(), "whole number of seconds"),
            (r#"{"methods":"GET"}"#.to_owned(), "give POST"),
            (r#"{"subject":"x"}"#.to_owned(), "unknown field subject"),
            (
                format!(r#"{{"name":"{}"}}"#, "x".repeat(101)),
                "at most 100 characters",
            ),
            (r#"{"slug":"A"}"#.into(), "a to z, 0 to 9"),
            (
                format!(r#"{{"tags":"{}"}}"#, "x ".repeat(65)),
                "at most 64 tags",
            ),
            (r#"{"timeout":59}"#.into(), "from 60 to 31536000"),
            (r#"{"schedule":"* * *"}"#.into(), "3 fields: cron has five"),
            (r#"{"tz":"Mars"}"#.into(), "Mars"),
            (r#"{"nmae":"x"}"#.into(), "unknown field"),
        ] {
            let error = edit::deserialize(&mut serde_json::Deserializer::from_str(&json))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(part) || part == "Mars" && error.contains("zone"),
                "{json}: {error}"
            );
        }
    }
}
