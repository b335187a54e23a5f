use super::*;
use proptest::prelude::*;

/// Returns the text of an XML document's elements by name, leaves only. Fails unless the document
/// is well-formed (as far as a badge goes: no comments, no processing instructions, no sections).
fn leaves(xml: &str) -> Result<Vec<(String, String)>, String> {
    let mut rest = xml;
    let mut open = Vec::new();
    let mut leaves = Vec::new();
    while let Some((before, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').ok_or("a tag without an end")?;
        let text = content(before)?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let (opened, leaf) = open.pop().ok_or("nothing to close")?;
            if opened != name {
                return Err(format!("{opened} closed as {name}"));
            }
            if leaf {
                leaves.push((opened, text));
            }
            continue;
        }
        if let Some(last) = open.last_mut() {
            last.1 = false;
        } else if !leaves.is_empty() {
            return Err("a second root".into());
        }
        let empty = tag.ends_with('/');
        let (name, attributes) = tag
            .trim_end_matches('/')
            .split_once(' ')
            .unwrap_or((tag, ""));
        attributes_of(attributes)?;
        if !empty {
            open.push((name.to_owned(), true));
        }
    }
    if open.is_empty() && content(rest)?.trim().is_empty() {
        Ok(leaves)
    } else {
        Err("text outside of the root".into())
    }
}

fn attributes_of(mut rest: &str) -> Result<(), String> {
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once("=\"")
            .ok_or_else(|| format!("no value: {rest}"))?;
        let (value, after) = value
            .split_once('"')
            .ok_or_else(|| format!("no end: {rest}"))?;
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b':')
        {
            return Err(format!("no name: {name}"));
        }
        content(value)?;
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    Ok(())
}

/// Returns character data with its entities resolved.
fn content(mut rest: &str) -> Result<String, String> {
    if let Some(c) = rest
        .chars()
        .find(|c| !matches!(c, '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'..))
    {
        return Err(format!("no XML character: {c:?}"));
    }
    let mut text = String::new();
    while let Some((before, entity)) = rest.split_once('&') {
        let (entity, after) = entity.split_once(';').ok_or("a bare ampersand")?;
        text.push_str(before);
        text.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            _ => return Err(format!("no entity: {entity}")),
        });
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns the texts of a badge: its title, then label and status, each preceded by its shadow.
fn texts(label: &str) -> Vec<String> {
    let leaves = leaves(&draw(label, "down", "#e05d44")).unwrap();
    leaves
        .into_iter()
        .filter(|(name, _)| name == "title" || name == "text")
        .map(|(_, text)| text)
        .collect()
}

#[test]
fn label_and_status_are_separate_elements() {
    assert_eq!(
        texts("a<b>&\"c\"'"),
        [
            "a<b>&\"c\"': down",
            "a<b>&\"c\"'",
            "a<b>&\"c\"'",
            "down",
            "down"
        ]
    );
}

#[test]
fn characters_that_xml_forbids_are_replaced() {
    assert_eq!(
        texts("a\0b\u{1b}c\td\r\ne\u{85}f\u{ffff}g")[1],
        "a\u{fffd}b\u{fffd}c d  e f\u{fffd}g"
    );
}

#[test]
fn long_labels_are_truncated() {
    let name = "ž".repeat(MAX_LABEL_CHARS);
    assert_eq!(texts(&name)[1], name, "no name is cut");
    let tag = "日".repeat(MAX_LABEL_CHARS + 1);
    assert_eq!(
        texts(&tag)[..2],
        [
            format!("{tag}: down"),
            format!("{}…", "日".repeat(MAX_LABEL_CHARS - 1))
        ]
    );
}

#[test]
fn the_picture_is_as_wide_as_its_text() {
    let picture = draw("日", "up", "#4c1");
    assert!(
        picture.starts_with(concat!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="49" height="20" "#,
            r#"viewBox="0 0 49 20" role="img">"#
        )),
        "{picture}"
    );
}

proptest! {
    #[test]
    fn any_label_gives_a_well_formed_document(label in any::<String>()) {
        let leaves = leaves(&draw(&label, "up", "#4c1")).map_err(TestCaseError::fail)?;
        prop_assert!(leaves.contains(&("text".into(), "up".into())));
    }
}
