//! The second factor of one's own account: turned on with an app that shows codes, and off again.

use std::fmt::Write as _;

use askama::Template;
use fast_qr::{ECL, QRBuilder};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::account::whose;
use super::answer::{Done, Html};
use super::error::Trouble;
use super::form::Form;
use super::frame::Frame;
use super::route::Page;
use super::settings::asks_password;
use super::sign_in::{is_confirmed, remain_known};
use super::visit::Visit;
use crate::domain::user::link::LinkCode;
use crate::domain::user::second_factor::{SecondFactor, TotpSecret};
use crate::engine::command::user::UserChanges;
use crate::manage;

/// Characters of a user's name that apps are told: a longer one would make the picture too fine for a camera.
const LONGEST_NAME: usize = 40;
/// Modules around a picture, as ISO/IEC 18004 asks for.
const QUIET: usize = 4;

#[derive(Template)]
#[template(path = "totp.html", config = "src/web/askama.toml")]
struct Totp {
    frame: Frame,
    own: String,
    account: String,
    has_password: bool,
    /// How many codes for a lost app are left; `None`: it is off.
    left: Option<usize>,
    most: usize,
    /// Codes that were just made, a line each.
    made: Option<String>,
    /// What is to be turned on.
    secret: String,
    picture: Option<Picture>,
    asks_password: bool,
    wrong: Option<&'static str>,
}

/// A QR code as one path.
struct Picture {
    size: usize,
    path: String,
}

/// The page.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    Ok(page(visit, None, None)?.into())
}

/// `secret`: that of the form before, which the app has by now.
fn page(visit: &Visit, secret: Option<TotpSecret>, wrong: Option<&'static str>) -> Result<Html, Trouble> {
    let (user, _) = whose(visit)?;
    let own = Page::AccountTotp();
    let secret = secret.unwrap_or_else(|| TotpSecret::new(visit.handle().random().bytes()));
    let is_off = user.second.is_none();
    let totp = Totp {
        frame: visit.frame("Second factor"),
        account: visit.link(&Page::Account()),
        has_password: user.password.is_some(),
        left: user.second.as_ref().map(|second| second.recovery.len()),
        most: SecondFactor::RECOVERY_CODES,
        made: visit.site.shown_once.take(visit, &own.to_string()),
        picture: if is_off { picture(&address(visit, user.name.as_str(), &secret)) } else { None },
        secret: in_groups(&secret.text()),
        asks_password: asks_password(visit),
        own: visit.link(&own),
        wrong,
    };
    let html = Html::of(&totp).secret();
    Ok(if wrong.is_some() { html.refused() } else { html })
}

/// What apps read from the picture (Key Uri Format of Google Authenticator).
fn address(visit: &Visit, name: &str, secret: &TotpSecret) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    let label = format!("{name}@{}", visit.base_url().host());
    format!("otpauth://totp/overdue:{}?secret={}&issuer=overdue", utf8_percent_encode(&label, NON_ALPHANUMERIC), secret.text())
}

/// Letters in groups of four, which are easier to type.
fn in_groups(text: &str) -> String {
    let letters: Vec<_> = text.chars().collect();
    letters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}

/// `None`: the text is too long.
fn picture(text: &str) -> Option<Picture> {
    let code = QRBuilder::new(text).ecl(ECL::M).build().ok()?;
    let mut path = String::new();
    for y in 0..code.size {
        let row = code.data.get(y * code.size..(y + 1) * code.size)?;
        let mut x = 0;
        for run in row.chunk_by(|one, other| one.value() == other.value()) {
            if run.first().is_some_and(|module| module.value()) {
                // Writing to memory does not fail.
                let _ = write!(path, "M{} {}h{}v1h-{}z", x + QUIET, y + QUIET, run.len(), run.len());
            }
            x += run.len();
        }
    }
    Some(Picture { size: code.size + 2 * QUIET, path })
}

/// Turns it on or off, or makes other codes for a lost app.
pub(super) async fn post(visit: &Visit, typed: &Form) -> Result<Done, Trouble> {
    let (user, by) = whose(visit)?;
    let own = Page::AccountTotp();
    let secret = TotpSecret::parse(typed.get("secret"));
    let refused = |secret, wrong| Ok(page(visit, secret, Some(wrong))?.into());
    let (second, done) = match (typed.get("do"), &user.second) {
        // It was done in another tab.
        ("on", Some(_)) | ("off" | "codes", None) => return Ok(Done::Go(own, None)),
        ("on", None) => {
            let secret = secret.clone().ok_or_else(Trouble::nothing_here)?;
            if user.password.is_none() {
                return refused(None, "choose a password first");
            }
            let Some(used) = secret.step_of(typed.get("code"), visit.now) else {
                return refused(Some(secret), "this is not the code that the app shows now; look at the clocks of both");
            };
            (Some(SecondFactor { secret, used, recovery: [].into() }), "totp-on")
        }
        ("off", Some(_)) => (None, "totp-off"),
        ("codes", Some(second)) => (Some(second.clone()), "totp-codes"),
        _ => return Err(Trouble::nothing_here()),
    };
    if !is_confirmed(visit, typed.get("password")).await? {
        return refused(secret, "type the password that you have now");
    }
    let codes: Vec<_> = (0..SecondFactor::RECOVERY_CODES).map(|_| LinkCode::drawn(visit.handle().random().bytes())).collect();
    let second = second.map(|second| SecondFactor { recovery: codes.iter().map(LinkCode::hash).collect(), ..second });
    let has_codes = second.is_some();
    manage::user::set(visit.handle(), user.id, UserChanges { second: Some(second), ..UserChanges::default() }, by).await?;
    if has_codes {
        let lines: Vec<_> = codes.iter().map(ToString::to_string).collect();
        visit.site.shown_once.keep(visit, &own.to_string(), lines.join("\n"));
    }
    let did = match done {
        "totp-on" => "turned their second factor on",
        "totp-off" => "turned their second factor off",
        _ => "made new recovery codes",
    };
    tracing::info!(user = user.name.as_str(), address = %visit.came.client.addr, "{did}");
    Ok(remain_known(visit, user, own, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_one_path_of_its_dark_modules() {
        let made = picture("otpauth://totp/overdue:ann%40nas?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=overdue").unwrap();
        assert!(made.size >= 21 + 2 * QUIET && (made.size - 2 * QUIET - 21).is_multiple_of(4), "{}", made.size);
        // The corner of a finder pattern: seven dark modules, then one, five light ones, one.
        assert!(made.path.starts_with("M4 4h7v1h-7z"), "{}", made.path);
        assert!(made.path.contains("M4 5h1v1h-1zM10 5h1v1h-1z"), "{}", made.path);
        assert!(picture(&"x".repeat(4000)).is_none());
        assert_eq!(in_groups("ABCDEFGHIJ"), "ABCD EFGH IJ");
    }
}
