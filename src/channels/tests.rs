//! Settings, texts and requests of each kind, responses, and untrusted text in names.

mod alert_text;
mod common_settings;
mod job_output;
mod kinds;
mod limits;
mod mail_replies;
mod redaction;
mod render;
mod replies;
mod sample;
mod secrets;
mod setting_fields;
mod settings;
mod snapshots;
mod template;
mod urls;
mod value_formats;
mod warning_text;
