//! Picture of a badge: a flat strip 20 pixels high, with the label on the left and the status on
//! the right.

use std::borrow::Cow;

use super::text_width;

/// Font size in pixels.
const TEXT_SIZE: u32 = 11;

/// Font of all texts. The reader may have another one.
const FONT_FAMILY: &str = r#"font-family="Verdana,Geneva,DejaVu Sans,sans-serif""#;

/// Free space on both sides of a text, in pixels.
const PADDING: u32 = 6;

/// Maximum characters of a label. A check's name is never longer, so only tags are ever truncated.
const MAX_LABEL_CHARS: usize = 100;

/// Draws a badge as one SVG document, without identifiers, so that one HTML page can contain
/// several.
pub(super) fn draw(label: &str, status: &str, color: &str) -> String {
    let title = escape_xml(&format!("{label}: {status}"));
    let label = truncate_label(label);
    let label_width = text_width::width_in_pixels(&label, TEXT_SIZE);
    let status_width = text_width::width_in_pixels(status, TEXT_SIZE);
    let middle = label_width + 2 * PADDING;
    let width = middle + status_width + 2 * PADDING;
    let label = text_element(&label, f64::from(middle) / 2.0, label_width);
    let status = text_element(status, f64::from(middle + width) / 2.0, status_width);
    let inner = width - 3;
    let size = format!(r#"width="{width}" height="20" viewBox="0 0 {width} 20""#);
    let font =
        format!(r#"{FONT_FAMILY} font-size="{TEXT_SIZE}" text-rendering="geometricPrecision""#);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>{title}</title>
<path fill="#555" d="M{middle} 0H3a3 3 0 0 0-3 3v14a3 3 0 0 0 3 3h{middle_inner}z"/>
<path fill="{color}" d="M{middle} 0H{inner}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{middle}z"/>
<g fill="#fff" text-anchor="middle" {font}>
{label}
{status}
</g>
</svg>
"##,
        middle_inner = middle - 3,
    )
}

/// Returns a text around `centre` over its own shadow. It is scaled to `text_width`, whatever font
/// the reader has.
fn text_element(text: &str, centre: f64, width: u32) -> String {
    let text = escape_xml(text);
    let place = format!(r#"x="{centre}" textLength="{width}" lengthAdjust="spacingAndGlyphs""#);
    let shadow =
        format!(r##"<text {place} y="15" fill="#010101" fill-opacity=".3">{text}</text>"##);
    format!(r#"{shadow}<text {place} y="14">{text}</text>"#)
}

fn truncate_label(label: &str) -> Cow<'_, str> {
    match label.char_indices().nth(MAX_LABEL_CHARS) {
        None => label.into(),
        Some(_) => label
            .chars()
            .take(MAX_LABEL_CHARS - 1)
            .chain(['…'])
            .collect::<String>()
            .into(),
    }
}

/// Escapes text for the content of an element. White space becomes a space. Characters that XML 1.0
/// forbids or discourages (section 2.2) become the replacement character.
fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_whitespace() => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
