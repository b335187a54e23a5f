//! What the account of the viewer keeps for lists: order, number of rows, pinned checks and saved
//! filters.

use uuid::Uuid;

use super::account::own_account;
use super::check_list::ListReturn;
use super::form_data::FormData;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::PageResponse;
use super::page_routes::{Page, RequiredRight};
use super::sign_in::parse_next_url;
use crate::domain::ids::parse_path_uuid;
use crate::domain::timezone::Timezone;
use crate::domain::user::preferences::{ListPreferences, SortOrder};
use crate::domain::user::saved_filters::SavedFilter;
use crate::domain::user::{Theme, UserPreferences};
use crate::engine::command::user::UserChanges;
use crate::operations;

/// Maximum number of pinned checks of a user: see [limits](crate::docs::limits).
const MAX_PINNED: usize = 100;

/// Parses the list preferences of a form. Missing fields keep their value.
pub(super) fn parse_list_preferences(form: &FormData, before: ListPreferences) -> ListPreferences {
    let order = SortOrder::parse(form.get("sort")).unwrap_or(before.order);
    ListPreferences {
        order,
        page_size: ListPreferences::parse_page_size(form.get("rows")).unwrap_or(before.page_size),
    }
}

/// Saves the sort order and page size of a list, the theme, and the time zone of the browser unless
/// the user has one. Redirects to the page in the field `next`.
pub(super) async fn save_list_preferences(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let preferences = &own_account(request)?.0.preferences;
    let list = parse_list_preferences(form, preferences.list);
    // A zone that only the browser knows is replaced, so that it does not report it again.
    let reported = || Timezone::parse(form.get("zone")).unwrap_or_else(|_| Timezone::utc());
    let zone = preferences
        .zone
        .clone()
        .or_else(|| form.has("zone").then(reported));
    let changed = UserPreferences {
        list,
        zone,
        theme: Theme::parse(form.get("theme")).unwrap_or(preferences.theme),
        ..preferences.clone()
    };
    save_preferences(request, changed).await?;
    let next = parse_next_url(&request.dashboard, form.get("next"));
    Ok(next.map_or_else(
        || PageResponse::Redirect(Page::Account(), FlashMessage::from_code("saved")),
        PageResponse::RedirectToUrl,
    ))
}

/// Pins a check to the top of lists, or unpins it.
pub(super) async fn pin_check(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let preferences = &own_account(request)?.0.preferences;
    let check: Uuid = parse_path_uuid(form.get("uuid")).ok_or_else(PageError::not_found)?;
    let project = request
        .handle()
        .with_state(|state| state.check_by_uuid(check).map(|found| found.project));
    if project.is_none() || !request.viewer.is_allowed(RequiredRight::Read, project) {
        return Err(PageError::not_found());
    }
    // Deleted checks are forgotten.
    let mut pinned: Vec<_> = request.handle().with_state(|state| {
        let pinned = preferences.pinned.iter().copied();
        pinned
            .filter(|uuid| *uuid != check && state.check_by_uuid(*uuid).is_some())
            .collect()
    });
    if form.has("pinned") {
        if pinned.len() >= MAX_PINNED {
            return Err(PageError::bad_request(
                "100 checks are pinned; unpin one first",
            ));
        }
        pinned.push(check);
    }
    let changed = UserPreferences {
        pinned: pinned.into(),
        ..preferences.clone()
    };
    save_preferences(request, changed).await?;
    Ok(PageResponse::Redirect(Page::Check(check), None))
}

/// Saves the filter of a list under a name, or deletes one.
pub(super) async fn save_filter(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let preferences = &own_account(request)?.0.preferences;
    let list = parse_next_url(&request.dashboard, form.get("list"))
        .ok_or_else(|| PageError::bad_request("`list` is not the URL of a list"))?;
    let mut filters = preferences.filters.clone();
    let query =
        ListReturn::parse(form.get("query").trim_start_matches('?'), preferences.list).list_url("");
    if form.has("delete") {
        filters.delete(form.get("delete"));
    } else {
        SavedFilter::new(form.get("name"), &query)
            .and_then(|filter| filters.save(filter))
            .map_err(PageError::bad_request)?;
    }
    let changed = UserPreferences {
        filters,
        ..preferences.clone()
    };
    save_preferences(request, changed).await?;
    Ok(PageResponse::RedirectToUrl(format!("{list}{query}")))
}

async fn save_preferences(
    request: &PageRequest,
    changed: UserPreferences,
) -> Result<(), PageError> {
    let (user, by) = own_account(request)?;
    if changed != user.preferences {
        let changes = UserChanges {
            preferences: Some(changed),
            ..UserChanges::default()
        };
        operations::user::update(request.handle(), user.id, changes, by).await?;
    }
    Ok(())
}
