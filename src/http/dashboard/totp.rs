//! Page that turns the second factor of the viewer on, with an authenticator app, and off.

use std::fmt::Write as _;

use askama::Template;
use fast_qr::{ECL, QRBuilder};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::account::own_account;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::project_settings::needs_password;
use super::sign_in::{has_confirmed_password, redirect_with_new_mark};
use crate::domain::user::one_time_link::LinkCode;
use crate::domain::user::second_factor::{SecondFactor, TotpSecret};
use crate::engine::command::user::UserChanges;
use crate::operations;

/// Maximum number of characters of the user name in the QR code. A longer name would make the code
/// too fine for a camera.
const MAX_LABEL_CHARS: usize = 40;
/// Width of the quiet zone in modules, as ISO/IEC 18004 requires.
const QUIET_ZONE: usize = 4;

#[derive(Template)]
#[template(path = "totp.html", config = "src/http/dashboard/askama.toml")]
struct TotpPage {
    layout: Layout,
    page_url: String,
    account: String,
    has_password: bool,
    /// Number of unused recovery codes. `None` if the second factor is off.
    left: Option<usize>,
    most: usize,
    /// New recovery codes, one per line.
    new_codes: Option<String>,
    /// Secret to be confirmed.
    secret: String,
    picture: Option<QrCode>,
    asks_password: bool,
    error: Option<&'static str>,
}

/// A QR code as one path.
struct QrCode {
    size: usize,
    path: String,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, None, None)?.into())
}

/// Renders the page. `secret`: secret of the previous form, which the app already has.
fn render_page(
    request: &PageRequest,
    secret: Option<TotpSecret>,
    error: Option<&'static str>,
) -> Result<HtmlPage, PageError> {
    let (user, _) = own_account(request)?;
    let page = Page::AccountTotp();
    let secret = secret.unwrap_or_else(|| TotpSecret::new(request.handle().random().bytes()));
    let is_off = user.second_factor.is_none();
    let totp = TotpPage {
        layout: request.layout("Second factor"),
        account: request.page_url(&Page::Account()),
        has_password: user.password.is_some(),
        left: user
            .second_factor
            .as_ref()
            .map(|second| second.recovery_hashes.len()),
        most: SecondFactor::RECOVERY_CODE_COUNT,
        new_codes: request
            .dashboard
            .one_time_texts
            .take(request, &page.to_string()),
        picture: if is_off {
            render_qr_code(&otpauth_url(request, user.name.as_str(), &secret))
        } else {
            None
        },
        secret: group_letters(&secret.to_base32()),
        asks_password: needs_password(request),
        page_url: request.page_url(&page),
        error,
    };
    let html = HtmlPage::from_template(&totp).without_caching();
    Ok(if error.is_some() {
        html.with_invalid_form()
    } else {
        html
    })
}

/// URL that apps read from the QR code (Key Uri Format of Google Authenticator).
fn otpauth_url(request: &PageRequest, name: &str, secret: &TotpSecret) -> String {
    let name: String = name.chars().take(MAX_LABEL_CHARS).collect();
    let label = format!("{name}@{}", request.base_url().host());
    format!(
        "otpauth://totp/overdue:{}?secret={}&issuer=overdue",
        utf8_percent_encode(&label, NON_ALPHANUMERIC),
        secret.to_base32()
    )
}

/// Letters in groups of four, which are easier to type.
fn group_letters(text: &str) -> String {
    let letters: Vec<_> = text.chars().collect();
    letters
        .chunks(4)
        .map(|group| group.iter().collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Renders a QR code. `None` if the text is too long.
fn render_qr_code(text: &str) -> Option<QrCode> {
    let code = QRBuilder::new(text).ecl(ECL::M).build().ok()?;
    let mut path = String::new();
    for y in 0..code.size {
        let row = code.data.get(y * code.size..(y + 1) * code.size)?;
        let mut x = 0;
        for run in row.chunk_by(|one, other| one.value() == other.value()) {
            if run.first().is_some_and(|module| module.value()) {
                // Writing to memory does not fail.
                let _ = write!(
                    path,
                    "M{} {}h{}v1h-{}z",
                    x + QUIET_ZONE,
                    y + QUIET_ZONE,
                    run.len(),
                    run.len()
                );
            }
            x += run.len();
        }
    }
    Some(QrCode {
        size: code.size + 2 * QUIET_ZONE,
        path,
    })
}

/// Enables or disables the second factor, or creates new recovery codes.
pub(super) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, by) = own_account(request)?;
    let page = Page::AccountTotp();
    let secret = TotpSecret::parse(form.get("secret"));
    let refused = |secret, error| Ok(render_page(request, secret, Some(error))?.into());
    let (second, done) = match (form.get("do"), &user.second_factor) {
        // Another tab has already done it.
        ("on", Some(_)) | ("off" | "codes", None) => return Ok(PageResponse::Redirect(page, None)),
        ("on", None) => {
            let secret = secret.clone().ok_or_else(PageError::not_found)?;
            if user.password.is_none() {
                return refused(None, "set a password first");
            }
            let Some(used) = secret.matching_time_step(form.get("code"), request.now) else {
                return refused(
                    Some(secret),
                    "wrong code; check the clocks of your phone and of this server",
                );
            };
            (
                Some(SecondFactor {
                    secret,
                    last_used_step: used,
                    recovery_hashes: [].into(),
                }),
                "totp-on",
            )
        }
        ("off", Some(_)) => (None, "totp-off"),
        ("codes", Some(second)) => (Some(second.clone()), "totp-codes"),
        _ => return Err(PageError::not_found()),
    };
    if !has_confirmed_password(request, form.get("password")).await? {
        return refused(secret, "enter your current password");
    }
    let codes: Vec<_> = (0..SecondFactor::RECOVERY_CODE_COUNT)
        .map(|_| LinkCode::from_random(request.handle().random().bytes()))
        .collect();
    let second = second.map(|second| SecondFactor {
        recovery_hashes: codes.iter().map(LinkCode::hash).collect(),
        ..second
    });
    let has_codes = second.is_some();
    operations::user::update(
        request.handle(),
        user.id,
        UserChanges {
            second_factor: Some(second),
            ..UserChanges::default()
        },
        by,
    )
    .await?;
    if has_codes {
        let lines: Vec<_> = codes.iter().map(ToString::to_string).collect();
        request
            .dashboard
            .one_time_texts
            .store(request, &page.to_string(), lines.join("\n"));
    }
    let did = match done {
        "totp-on" => "turned the second factor on",
        "totp-off" => "turned the second factor off",
        _ => "created new recovery codes",
    };
    tracing::info!(user = user.name.as_str(), address = %request.origin.client.addr, "{did}");
    Ok(redirect_with_new_mark(request, user, page, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_is_one_path_of_its_dark_modules() {
        let made = render_qr_code(
            "otpauth://totp/overdue:ann%40nas?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&\
             issuer=overdue",
        )
        .unwrap();
        assert!(
            made.size >= 21 + 2 * QUIET_ZONE && (made.size - 2 * QUIET_ZONE - 21).is_multiple_of(4),
            "{}",
            made.size
        );
        // The corner of a finder pattern: seven dark modules, then one dark, five light, one dark.
        assert!(made.path.starts_with("M4 4h7v1h-7z"), "{}", made.path);
        assert!(
            made.path.contains("M4 5h1v1h-1zM10 5h1v1h-1z"),
            "{}",
            made.path
        );
        assert!(render_qr_code(&"x".repeat(4000)).is_none());
        assert_eq!(group_letters("ABCDEFGHIJ"), "ABCD EFGH IJ");
    }
}
