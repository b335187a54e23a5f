//! Signing in with a passkey.

use super::super::form_data::FormData;
use super::super::page_error::PageError;
use super::super::page_request::PageRequest;
use super::super::page_response::PageResponse;
use super::super::sign_in::{self, VerifiedCredentials};
use super::relying_party::{Assertion, PasskeyError, RelyingParty};
use crate::engine::command::user::SignInProof;
use crate::util::log_limit::LogLimit;

static FAILED_PASSKEY_LOG_LIMIT: LogLimit = LogLimit::new();

/// Sends the options for the browser.
pub(in crate::http::dashboard) fn show_options(
    request: &PageRequest,
) -> Result<PageResponse, PageError> {
    let party = RelyingParty::of(request.base_url()).ok_or_else(PageError::not_found)?;
    Ok(PageResponse::Json(party.request_options(
        &request.dashboard.sign_in_challenges,
        request.handle().random(),
        request.handle().clock().uptime(),
    )))
}

/// Signs in with a signature.
pub(in crate::http::dashboard) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let party = RelyingParty::of(request.base_url()).ok_or_else(PageError::not_found)?;
    let assertion = match Assertion::parse(form.get("response")) {
        Ok(assertion) => assertion,
        Err(error) => return Ok(refuse(request, &error)),
    };
    let user = assertion
        .user()
        .and_then(|uuid| {
            request
                .handle()
                .with_state(|state| state.users.by_uuid(uuid).cloned())
        })
        .filter(|user| !user.disabled);
    let attempt = sign_in::begin_attempt(request, user.as_ref().map(|user| &user.name))?;
    let passkey = user
        .as_ref()
        .zip(assertion.passkey())
        .and_then(|(user, id)| user.passkeys.iter().find(|passkey| passkey.id == id));
    let (Some(user), Some(passkey)) = (&user, passkey) else {
        return Ok(sign_in::restart_sign_in(
            request,
            "This passkey does not belong to an account of this server.",
        ));
    };
    let verified = party.verify_assertion(
        &assertion,
        passkey,
        &request.dashboard.sign_in_challenges,
        request.handle().clock().uptime(),
    );
    let counter = match verified {
        Ok(counter) => counter,
        Err(error) => return Ok(refuse(request, &error)),
    };
    let credentials = VerifiedCredentials {
        proof: SignInProof::Passkey {
            id: passkey.id.clone(),
            counter,
        },
        is_code_counted: false,
    };
    let opened =
        sign_in::open_session(request, user, credentials, attempt, form.get("next")).await?;
    Ok(opened.unwrap_or_else(|| {
        sign_in::restart_sign_in(
            request,
            "Your account was changed in the meantime. Sign in again.",
        )
    }))
}

/// Renders the sign-in form with an error.
fn refuse(request: &PageRequest, error: &PasskeyError) -> PageResponse {
    if let Some(suppressed) = FAILED_PASSKEY_LOG_LIMIT.admit(request.now) {
        tracing::warn!(
            address = %request.origin.client.addr,
            "a sign-in failed: passkey: {error}{suppressed}"
        );
    }
    sign_in::restart_sign_in(
        request,
        match error {
            PasskeyError::Challenge(_) => "The sign-in has timed out. Try again.",
            _ => "The passkey was not accepted.",
        },
    )
}
