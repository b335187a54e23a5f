//! Form of a check: for a new one, and for the settings of an existing one.

use std::sync::Arc;

use askama::Template;

use super::CheckHeader;
use super::actions::create_check;
use super::form_fields::{CheckFormError, CheckFormFields, DURATION_UNITS, PARENT_FIELD, is_box};
use super::form_parts::FormPart;
use super::keyword_preview;
use super::notifications::{self, CheckChannelRow};
use super::overview::zone_diagnosis;
use super::parent_names::{ParentNames, parent_error};
use super::schedule_preview::SchedulePreview;
use crate::domain::check::CheckSettings;
use crate::domain::check_edit::CheckEdit;
use crate::domain::check_edit::fields::{self, CheckField};
use crate::domain::formatting::TimeFormatter;
use crate::domain::ids::CheckId;
use crate::domain::number::FailureThreshold;
use crate::domain::parents::Parents;
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, CommandError};
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::FlashMessage;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::operations::{OperationError, check};

#[derive(Template)]
#[template(path = "edit.html", config = "src/http/dashboard/askama.toml")]
struct CheckFormPage {
    layout: Layout,
    /// Header of an existing check.
    top: Option<CheckHeader>,
    title: &'static str,
    path: String,
    cancel: String,
    fields: CheckFormFields,
    errors: Vec<CheckFormError>,
    channels: Vec<CheckChannelRow>,
    /// Names of checks that this check may depend on.
    others: Vec<String>,
    zones: Vec<&'static str>,
    units: [(&'static str, &'static str, u64); 4],
    preview: SchedulePreview,
    /// Summary of the keyword filters, tried on the last pings.
    keyword_summary: String,
    /// UUID of an existing check.
    edited: Option<String>,
    /// Diagnosis if the pings fit another time zone than that of the check.
    diagnosis: Option<String>,
    /// Digests of the settings that the form was created from.
    digests_before: String,
    /// Parts that another user has changed in the meantime, to other values.
    conflicts: Vec<EditConflict>,
    is_slug_taken: bool,
}

/// A part of the form that another user has changed to another value.
struct EditConflict {
    label: &'static str,
    stored: String,
    submitted: String,
}

/// Feedback of a form besides its fields.
#[derive(Default)]
struct CheckFormFeedback {
    errors: Vec<CheckFormError>,
    conflicts: Vec<EditConflict>,
}

impl CheckFormPage {
    /// Form for this request, filled with these fields. `digests_before`: digests of the settings
    /// that they were created from.
    fn new(
        request: &PageRequest,
        fields: CheckFormFields,
        digests_before: String,
        feedback: CheckFormFeedback,
    ) -> Result<Self, PageError> {
        let top = if matches!(request.page, Page::EditCheck(_)) {
            Some(CheckHeader::new(request)?)
        } else {
            None
        };
        let project = request.project()?;
        let edited = keyword_preview::edited_check(request);
        let list = request
            .list_return()
            .list_url(&request.page_url(&Page::Checks(project.uuid)));
        let viewer_times = TimeFormatter {
            now: request.now,
            zone: &request.viewer.zone,
        };
        Ok(Self {
            title: if top.is_some() { "Edit" } else { "Add a check" },
            layout: request.layout(if top.is_some() {
                "Edit a check"
            } else {
                "Add a check"
            }),
            path: request.page_url_with_return(&request.page),
            cancel: top.as_ref().map_or(list, |top| top.page_url.clone()),
            channels: channel_options(request, &fields)?,
            others: ParentNames::for_project(request)?.suggestions(edited_check_id(request)),
            zones: zone_names(&request.viewer.zone),
            units: DURATION_UNITS,
            preview: SchedulePreview::new(&fields, &viewer_times)
                .without_errors_of(&feedback.errors),
            keyword_summary: edited.as_ref().map_or_else(
                || Ok(String::new()),
                |check| keyword_preview::keyword_summary(request, check, &fields),
            )?,
            diagnosis: edited
                .as_ref()
                .map(|check| zone_diagnosis(request, check))
                .transpose()?
                .flatten(),
            edited: edited.map(|check| check.uuid.to_string()),
            is_slug_taken: is_slug_taken(request, &fields)?,
            errors: feedback.errors,
            conflicts: feedback.conflicts,
            top,
            fields,
            digests_before,
        })
    }

    /// Error in a field.
    fn error(&self, field: &str) -> Option<&str> {
        self.errors
            .iter()
            .find(|error| error.field == field)
            .map(|error| error.text.as_str())
    }

    /// Inputs for the parents. One input is empty as long as the check may have more parents.
    fn parents(&self) -> Vec<&str> {
        let form = self.fields.parents.iter().map(String::as_str);
        form.chain(Some("").filter(|_| self.fields.parents.len() < Parents::MAX_PARENTS))
            .collect()
    }

    fn expects(&self, name: &str) -> bool {
        self.fields.expects.name() == name
    }

    /// Inputs for keywords.
    fn keyword_inputs(&self) -> impl Iterator<Item = &'static CheckField> {
        let is_input = |field: &&CheckField| !is_box(field);
        fields::KEYWORD_FIELDS.into_iter().filter(is_input)
    }

    /// Inputs for limits of runs.
    fn limit_inputs(&self) -> impl Iterator<Item = &'static CheckField> {
        fields::LIMIT_FIELDS.into_iter()
    }

    fn has_more(&self) -> bool {
        let fields = &self.fields;
        let is_shown = |name| !fields.text(name).is_empty() || self.error(name).is_some();
        fields.is_ticked("manual_resume")
            || fields.is_ticked("post_only")
            || fields.after != "1"
            || !fields.parents.is_empty()
            || self
                .keyword_inputs()
                .chain(self.limit_inputs())
                .any(|input| is_shown(input.form_name))
            || ["after", PARENT_FIELD].into_iter().any(is_shown)
    }
}

/// Renders the form for a new check.
pub(crate) fn show_add(request: &PageRequest) -> Result<PageResponse, PageError> {
    let channels = project_channels(request)?
        .into_iter()
        .map(|(uuid, ..)| uuid)
        .collect();
    let settings = CheckSettings {
        tz: request.viewer.zone.clone(),
        ..CheckSettings::default()
    };
    let fields = CheckFormFields::from_settings(&settings, channels, Vec::new());
    Ok(HtmlPage::from_template(&CheckFormPage::new(
        request,
        fields,
        String::new(),
        CheckFormFeedback::default(),
    )?)
    .into())
}

/// Renders the form of an existing check.
pub(crate) fn show_edit(request: &PageRequest) -> Result<PageResponse, PageError> {
    let fields = stored_fields(request)?;
    let digests_before = fields.digests();
    Ok(HtmlPage::from_template(&CheckFormPage::new(
        request,
        fields,
        digests_before,
        CheckFormFeedback::default(),
    )?)
    .into())
}

/// Creates a check.
pub(crate) async fn submit_new_check(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    let request = Arc::new(request);
    let fields = CheckFormFields::from_query(form.fields());
    if form.has("preview") {
        return redisplay_form(
            &request,
            fields,
            String::new(),
            CheckFormFeedback::default(),
            None,
        )
        .await;
    }
    let parents = parse_parents(&request, &fields).await?;
    let (edit, after, parents) =
        match combine_results(fields.to_edit(&CheckSettings::default()), parents) {
            Ok(read) => read,
            Err(errors) => {
                return redisplay_form(
                    &request,
                    fields,
                    String::new(),
                    CheckFormFeedback {
                        errors,
                        conflicts: Vec::new(),
                    },
                    Some(HttpError::InvalidForm),
                )
                .await;
            }
        };
    let created = create_check(&request, edit).await?;
    if (after, &parents)
        != (
            created.settings.failure_threshold,
            &created.settings.parents,
        )
    {
        let alerting = Command::UpdateAlertSettings {
            check: created.id,
            failure_threshold: Some(after),
            parents: Some(parents),
        };
        if request.handle().call(alerting).await?.is_err() {
            return Ok(PageResponse::Redirect(
                Page::EditCheck(created.uuid),
                FlashMessage::from_code("made-alone"),
            ));
        }
    }
    Ok(PageResponse::Redirect(
        Page::Check(created.uuid),
        FlashMessage::from_code("made"),
    ))
}

/// Saves the settings of a check. Settings that have changed since the form was created, and were
/// not changed in the form, are kept.
pub(crate) async fn update_check(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    let request = Arc::new(request);
    let mut fields = CheckFormFields::from_query(form.fields());
    let digests_before = form.get("was").to_owned();
    if form.has("preview") {
        return redisplay_form(
            &request,
            fields,
            digests_before,
            CheckFormFeedback::default(),
            None,
        )
        .await;
    }
    let shared_request = Arc::clone(&request);
    let stored = request
        .response_writer()
        .run_blocking(move || stored_fields(&shared_request))
        .await??;
    let conflicts = fields.merge(&digests_before, &stored);
    let digests_before = stored.digests();
    if !conflicts.is_empty() {
        let conflicts = describe_conflicts(&request, &stored, &fields, conflicts)?;
        return redisplay_form(
            &request,
            fields,
            digests_before,
            CheckFormFeedback {
                errors: Vec::new(),
                conflicts,
            },
            Some(HttpError::Outdated),
        )
        .await;
    }
    let check = request.check()?;
    let refused = |fields, digests_before, errors| {
        redisplay_form(
            &request,
            fields,
            digests_before,
            CheckFormFeedback {
                errors,
                conflicts: Vec::new(),
            },
            Some(HttpError::InvalidForm),
        )
    };
    let parents = parse_parents(&request, &fields).await?;
    let (edit, after, parents) = match combine_results(fields.to_edit(&check.settings), parents) {
        Ok(read) => read,
        Err(errors) => return refused(fields, digests_before, errors).await,
    };
    // The command that may be refused is first, so that everything is saved or nothing.
    if (after, &parents) != (check.settings.failure_threshold, &check.settings.parents) {
        match check::update_alert_settings(request.handle(), check.id, Some(after), Some(parents))
            .await
        {
            Err(OperationError::Command(CommandError::InvalidParents(error))) => {
                return refused(
                    fields,
                    digests_before,
                    vec![parent_error(&error.to_string())],
                )
                .await;
            }
            changed => changed?,
        };
    }
    match check::update(request.handle(), check.id, edit).await {
        Err(OperationError::Command(CommandError::InvalidChannel(_))) => {
            let text = "A channel was deleted in the meantime. Choose again.".into();
            refused(
                fields,
                digests_before,
                vec![CheckFormError {
                    field: "channel",
                    label: "Alerts",
                    text,
                }],
            )
            .await
        }
        done => done
            .map(|_| {
                PageResponse::Redirect(Page::Check(check.uuid), FlashMessage::from_code("saved"))
            })
            .map_err(PageError::from),
    }
}

/// Combines the parsed parts of a form, or all of their errors.
fn combine_results(
    edit: Result<(CheckEdit, FailureThreshold), Vec<CheckFormError>>,
    parents: Result<Parents, CheckFormError>,
) -> Result<(CheckEdit, FailureThreshold, Parents), Vec<CheckFormError>> {
    match (edit, parents) {
        (Ok((edit, after)), Ok(parents)) => Ok((edit, after, parents)),
        (edit, parents) => Err(edit
            .err()
            .into_iter()
            .flatten()
            .chain(parents.err())
            .collect()),
    }
}

/// Parses the parents of a form.
async fn parse_parents(
    request: &Arc<PageRequest>,
    fields: &CheckFormFields,
) -> Result<Result<Parents, CheckFormError>, PageError> {
    if fields.parents.is_empty() {
        return Ok(Ok(Parents::default()));
    }
    let shared_request = Arc::clone(request);
    let names = fields.parents.clone();
    request
        .response_writer()
        .run_blocking(move || {
            Ok(ParentNames::for_project(&shared_request)?.parse_parents(&shared_request, &names))
        })
        .await?
}

/// Renders the submitted form again.
async fn redisplay_form(
    request: &Arc<PageRequest>,
    fields: CheckFormFields,
    digests_before: String,
    feedback: CheckFormFeedback,
    error: Option<HttpError>,
) -> Result<PageResponse, PageError> {
    let shared_request = Arc::clone(request);
    let html = request
        .response_writer()
        .run_blocking(move || {
            CheckFormPage::new(&shared_request, fields, digests_before, feedback)
                .map(|page| HtmlPage::from_template(&page))
        })
        .await??;
    Ok(match error {
        Some(error) => html.with_error(error),
        None => html,
    }
    .into())
}

/// Form fields with the stored settings of the check.
fn stored_fields(request: &PageRequest) -> Result<CheckFormFields, PageError> {
    let check = request.check()?;
    let parents = &check.settings.parents;
    let parents = if parents.ids().is_empty() {
        Vec::new()
    } else {
        ParentNames::for_project(request)?.format_parents(parents)
    };
    request.handle().with_state(|state| {
        let channels = state
            .channels_of(check)
            .map(|channel| channel.uuid.to_string())
            .collect();
        Ok(CheckFormFields::from_settings(
            &check.settings,
            channels,
            parents,
        ))
    })
}

/// Id of the check of the page, if it exists.
fn edited_check_id(request: &PageRequest) -> Option<CheckId> {
    matches!(request.page, Page::EditCheck(_))
        .then(|| request.check().ok().map(|check| check.id))
        .flatten()
}

/// Channels of the project: UUID, name and kind.
fn project_channels(
    request: &PageRequest,
) -> Result<Vec<(String, String, &'static str)>, PageError> {
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        let channels = state
            .project(project)
            .into_iter()
            .flat_map(|project| project.channels.values());
        Ok(channels
            .map(|channel| {
                (
                    channel.uuid.to_string(),
                    channel.name.as_str().into(),
                    channel.settings.kind().title,
                )
            })
            .collect())
    })
}

fn channel_options(
    request: &PageRequest,
    fields: &CheckFormFields,
) -> Result<Vec<CheckChannelRow>, PageError> {
    notifications::channel_rows(request, |channel| {
        fields.channels.contains(&channel.uuid.to_string())
    })
}

/// Names of time zones, the viewer's first.
fn zone_names(check_zone: &Timezone) -> Vec<&'static str> {
    let mut zones: Vec<_> = Timezone::names().collect();
    zones.sort_by_key(|name| (*name != check_zone.name(), *name));
    zones
}

/// True if another check of the project has the slug, so that the slug is ambiguous for pings.
fn is_slug_taken(request: &PageRequest, fields: &CheckFormFields) -> Result<bool, PageError> {
    let edited = edited_check_id(request);
    let slug = crate::domain::text::Slug::parse(fields.text("slug"))
        .ok()
        .filter(|slug| !slug.is_empty());
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        Ok(slug.is_some_and(|slug| {
            state
                .checks_by_slug(project, &slug)
                .iter()
                .any(|id| Some(*id) != edited)
        }))
    })
}

/// Describes the parts of the form that were changed at the same time.
fn describe_conflicts(
    request: &PageRequest,
    stored: &CheckFormFields,
    form: &CheckFormFields,
    conflicts: Vec<FormPart>,
) -> Result<Vec<EditConflict>, PageError> {
    let channels = project_channels(request)?;
    let channel_name = |uuid: &str| {
        let (_, name, kind) = channels.iter().find(|(channel, ..)| channel == uuid)?;
        Some(if name.is_empty() { *kind } else { name }.to_owned())
    };
    Ok(conflicts
        .into_iter()
        .map(|part| EditConflict {
            label: part.label(),
            stored: part.describe(stored, channel_name),
            submitted: part.describe(form, channel_name),
        })
        .collect())
}
