//! Receives the form with the file of an import.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap};
use multer::{Field, Multipart};
use tokio::time::timeout;

use super::super::page_error::PageError;
use super::super::page_request::PageRequest;
use super::super::page_response::PageResponse;
use super::super::page_routes::Page;
use super::render_form;
use crate::http::common::reply::HttpError;
use crate::http::common::request_body::IncomingBody;
use crate::import::environment::ServerEnvironment;
use crate::import::{ImportOptions, PingLogSelection, UploadedSource, create_unnamed_file};
use crate::util::random::Random;

/// Maximum size of a file: see [limits](crate::docs::limits).
pub(super) const MAX_UPLOAD_BYTES: usize = 2_000_000_000;
/// Maximum length of another field of the form in bytes.
const MAX_FIELD_BYTES: usize = 4 << 10;
/// Maximum number of fields of the form.
const MAX_FIELDS: usize = 10;
/// Maximum characters of the name of a file that is shown.
const MAX_FILE_NAME_CHARS: usize = 100;
/// Bytes that are written to the file at once.
const WRITE_BYTES: usize = 1 << 20;
/// Time in which more of the file must arrive.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which the whole form must arrive.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3600);

/// Form with a file.
#[derive(Default)]
struct UploadForm {
    file: Option<(String, File)>,
    logs: String,
    with_users: bool,
    secret: String,
}

/// Receives the form, and starts the preview of its file.
pub(in crate::http::dashboard) async fn receive(
    request: PageRequest,
    headers: &HeaderMap,
    body: IncomingBody<'_>,
) -> Result<PageResponse, PageError> {
    let dashboard = Arc::clone(&request.dashboard);
    let Ok(_permit) = dashboard.upload_permit.try_acquire() else {
        return refuse(request, "another file is being uploaded".into()).await;
    };
    let boundary = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| multer::parse_boundary(value).ok());
    let Some(boundary) = boundary else {
        return Err(PageError::bad_request("the form has no file"));
    };
    let parts = Multipart::new(body.into_bytes_stream(), boundary);
    let received = timeout(UPLOAD_TIMEOUT, receive_form(&request, parts)).await;
    let form = match received.unwrap_or(Err(HttpError::BodyTimeout.into()))? {
        Ok(form) => form,
        Err(reason) => return refuse(request, reason).await,
    };
    let options = form.options();
    let Some((name, file)) = form.file.filter(|(name, _)| !name.is_empty()) else {
        return refuse(request, "choose a file".into()).await;
    };
    let handle = request.handle().clone();
    let source = UploadedSource::new(name.clone(), file, options, Random::System);
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        file = name,
        "uploaded a file for an import"
    );
    match dashboard.import_slot.start(handle, name, source) {
        Ok(id) => Ok(PageResponse::Redirect(Page::ImportJob(id), None)),
        Err(reason) => refuse(request, reason.into()).await,
    }
}

/// Receives the fields of the form. Returns them, or the reason why the file cannot be kept.
async fn receive_form(
    request: &PageRequest,
    mut parts: Multipart<'_>,
) -> Result<Result<UploadForm, String>, PageError> {
    let mut form = UploadForm::default();
    let mut field_count = 0;
    while let Some(field) = next_part(parts.next_field()).await? {
        field_count += 1;
        if field_count > MAX_FIELDS {
            return Err(PageError::bad_request("the form has too many fields"));
        }
        match field.name().unwrap_or_default() {
            "file" => match receive_file(request, field).await? {
                Ok(file) => form.file = Some(file),
                Err(reason) => return Ok(Err(reason)),
            },
            "logs" => form.logs = read_text(field).await?,
            "users" => form.with_users = !read_text(field).await?.is_empty(),
            "secret" => form.secret = read_text(field).await?,
            _ => drop(read_text(field).await?),
        }
    }
    Ok(Ok(form))
}

impl UploadForm {
    fn options(&self) -> ImportOptions {
        let environment = ServerEnvironment::default();
        ImportOptions {
            projects: Vec::new(),
            skipped_checks: Vec::new(),
            timezone_map: Vec::new(),
            logs: match &*self.logs {
                "heads" => PingLogSelection::WithoutBodies,
                "none" => PingLogSelection::None,
                _ => PingLogSelection::All,
            },
            with_users: self.with_users,
            environment: match self.secret.trim() {
                "" => environment,
                secret => environment.with_secret(secret),
            },
        }
    }
}

/// Renders the form again with the reason why the file was not accepted.
async fn refuse(request: PageRequest, reason: String) -> Result<PageResponse, PageError> {
    let dashboard = Arc::clone(&request.dashboard);
    let owner = request.owner();
    let page = dashboard.run_blocking(owner, move || render_form(&request, Some(reason)));
    Ok(page.await?.into())
}

/// Waits for the next part of the form.
async fn next_part<T>(
    part: impl Future<Output = Result<Option<T>, multer::Error>>,
) -> Result<Option<T>, PageError> {
    match timeout(CHUNK_TIMEOUT, part).await {
        Ok(Ok(part)) => Ok(part),
        Ok(Err(_)) => Err(HttpError::BadRequest("the form data is invalid".into()).into()),
        Err(_) => Err(HttpError::BodyTimeout.into()),
    }
}

async fn read_text(mut field: Field<'_>) -> Result<String, PageError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = next_part(field.chunk()).await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_FIELD_BYTES {
            return Err(HttpError::BodyTooLarge(MAX_FIELD_BYTES).into());
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| HttpError::BadRequest("the form data is invalid".into()).into())
}

/// Writes the file of the form to a temporary file. Returns it with its name, or the reason why it
/// cannot be kept.
async fn receive_file(
    request: &PageRequest,
    mut field: Field<'_>,
) -> Result<Result<(String, File), String>, PageError> {
    let name = shown_file_name(field.file_name().unwrap_or_default());
    let writer = request.response_writer();
    // Other servers create files in the same directory.
    let created = writer.run_blocking(|| create_unnamed_file(&Random::System));
    let mut file = match created.await? {
        Ok(file) => file,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut buffer = Vec::new();
    let mut length = 0;
    loop {
        let chunk = next_part(field.chunk()).await?;
        let is_end = chunk.is_none();
        buffer.extend_from_slice(&chunk.unwrap_or_default());
        if buffer.len() >= WRITE_BYTES || is_end {
            length += buffer.len();
            if length > MAX_UPLOAD_BYTES {
                return Err(HttpError::BodyTooLarge(MAX_UPLOAD_BYTES).into());
            }
            let bytes = std::mem::take(&mut buffer);
            let write = move || file.write_all(&bytes).map(|()| file);
            file = match writer.run_blocking(write).await? {
                Ok(file) => file,
                Err(error) => return Ok(Err(format!("the file cannot be stored: {error}"))),
            };
        }
        if is_end {
            return Ok(Ok((name, file)));
        }
    }
}

/// Last part of the name of a file, without control characters.
fn shown_file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    last.chars()
        .filter(|char| !char.is_control())
        .take(MAX_FILE_NAME_CHARS)
        .collect()
}
