//! What is said and sent, kind by kind; the answers; and what strangers may put into a name.

mod answers;
mod kinds;
mod limits;
mod redaction;
mod render;
mod sample;
mod template;
mod urls;
mod words;
