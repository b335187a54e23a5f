//! Variables in the text of a shell command, and how they are quoted there.

/// What a part of a command stands in. Outside of all of these is the command itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    DoubleQuotes,
    Parentheses,
    Backquotes,
}

/// Returns the variables of alerts that stand between single quotes, where `sh` does not expand them: each once, in the order of the text.
pub(super) fn in_single_quotes(command: &str) -> Vec<&str> {
    let (mut found, mut within, mut rest, mut before) = (Vec::new(), Vec::new(), command, ' ');
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let innermost = within.last().copied();
        let is_double = innermost == Some(Within::DoubleQuotes);
        rest = after;
        match c {
            '\\' => rest = skip_char(after),
            '\'' if !is_double => {
                let (quoted, behind) = after.split_once('\'').unwrap_or((after, ""));
                for name in variables(quoted) {
                    if !found.contains(&name) {
                        found.push(name);
                    }
                }
                rest = behind;
            }
            '"' => toggle(&mut within, Within::DoubleQuotes),
            '`' => toggle(&mut within, Within::Backquotes),
            '(' if !is_double || before == '$' => within.push(Within::Parentheses),
            ')' if innermost == Some(Within::Parentheses) => {
                within.pop();
            }
            '#' if !is_double && (before.is_whitespace() || ";|&(".contains(before)) => {
                rest = after.find('\n').and_then(|end| after.get(end..)).unwrap_or_default();
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// Leaves what begins and ends with the same character, or enters it.
fn toggle(within: &mut Vec<Within>, quotes: Within) {
    if within.last() == Some(&quotes) {
        within.pop();
    } else {
        within.push(quotes);
    }
}

fn skip_char(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

/// Returns the variables of alerts in a text, as in `$NAME` and `${NAME}`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|after| {
        let after = after.strip_prefix('{').unwrap_or(after);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        after.get(..end).filter(|name| is_of_alerts(name))
    })
}

/// True if a command of a channel has a variable of this name in its environment.
fn is_of_alerts(name: &str) -> bool {
    let is_tag = |number: &str| !number.is_empty() && !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    ["NAME", "TAGS", "STATUS", "CODE", "NOW", "BODY"].contains(&name)
        || name.starts_with("OVERDUE_ALERT_")
        || name.strip_prefix("TAG").is_some_and(is_tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_between_single_quotes_are_found() {
        for (command, found) in [
            ("echo $NAME", &[][..]),
            ("echo \"$NAME\"", &[]),
            ("echo '$NAME'", &["NAME"]),
            ("echo '${TAG12} $TAG0 $TAGS' '$TAGS $OVERDUE_ALERT_EVENT'", &["TAG12", "TAGS", "OVERDUE_ALERT_EVENT"]),
            // Between double quotes a single quote is a character like any other.
            ("echo \"it's $NAME\" 'x'", &[]),
            ("echo \"$(echo '$STATUS')\" \"$NAME\"", &["STATUS"]),
            ("echo \"`echo '$STATUS'`\"", &["STATUS"]),
            ("echo \"(it's $NAME)\"", &[]),
            ("echo \\'$NAME\\'", &[]),
            ("echo \"\\\"'$NAME'\"", &[]),
            ("echo ok # don't\necho \"$NAME\" 'it'", &[]),
            ("(echo '$CODE'; echo \"$NOW\") # '$NAME'", &["CODE"]),
            ("awk '{print $1, $NAMES}'", &[]),
            ("echo 'never closed $BODY", &["BODY"]),
            ("", &[]),
        ] {
            assert_eq!(in_single_quotes(command), found, "{command}");
        }
    }
}
