//! Texts and requests of each kind, responses, and untrusted text in names.

mod alert_text;
mod kinds;
mod limits;
mod redaction;
mod render;
mod replies;
mod sample;
mod template;
mod urls;
