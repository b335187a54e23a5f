//! What is said and sent, kind by kind; the answers; and what strangers may put into a name.

mod alert_text;
mod kinds;
mod limits;
mod redaction;
mod render;
mod replies;
mod sample;
mod template;
mod urls;
