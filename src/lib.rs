//! overdue notices when a scheduled job did not report: jobs ping a URL, a check that misses its deadline goes late, then down, and the
//! Management API v3 manages it all. One process, one database file. It tells people and programs by thirty kinds of channel.
//!
//! # The house
//!
//! A room imports only from floors below it; doors never import each other.
//!
//! | floor | room | what lives there |
//! | --- | --- | --- |
//! | 10 | [`cli`] | every subcommand and flag, once: help, env name, default |
//! | 9 | [`serve`] | opens the engine, starts the doors, drains them in order at SIGTERM |
//! | 8 | [`http`], [`smtp`], [`admin`] | the doors: raw input becomes a domain type or a refusal |
//! | 7 | [`web`] | the dashboard: pages for people |
//! | 6 | `wire` | what HTTP requests and answers are made of: bodies, faults, the URLs of programs |
//! | 5 | [`manage`] | projects, keys, channels, checks and users: found, made, changed, removed; their names and secrets are drawn here |
//! | 5 | [`notify`] | who should know is told: what waits in the outbox is sent, and what has come of it is reported |
//! | 5 | [`job`] | at the command line, runs a job and tells a server of it |
//! | 5 | [`declare`] | configuration as files: read, compared with what there is, made so, written |
//! | 5 | [`discover`] | jobs in crontabs and timers, and the checks that are proposed for them |
//! | 5 | [`import`] | what another server kept, read from its database, a dump or an export, as things of this house and a report; and that export |
//! | 5 | [`backup`] | the database as a stream of rows, in files: made, looked at, made a database again |
//! | 5 | `accept`, [`connection_threads`], [`blocking_threads`], [`certificate`] | what the doors share: accepting connections, the threads that run those of HTTP, the threads for what takes long, and certificates that are read again |
//! | 4 | [`engine`] | the only hands that write: commands, one writer, what is in memory, what may be read |
//! | 3 | [`store`] | the database file (redb and MessagePack stop here) |
//! | 3 | [`outbound`] | the one way out: names, the guard of addresses, HTTP, mail, commands |
//! | 2 | [`channel`] | what goes out through a channel: words, dialects, requests, and what answers mean |
//! | 2 | [`mail`] | what is read out of a mail: its subject and its text |
//! | 2 | [`metrics`] | what the server counts of itself, as text for Prometheus |
//! | 2 | [`wheel`], [`clock`], [`random`], [`password`], `passwd`, `log_limit` | deadlines in ticks; the only sources of time and chance; hashes of passwords; the users of the machine; how many lines strangers may cause in the log |
//! | 1 | [`domain`], [`docs`] | what checks, pings, flips, schedules and kinds of channel are, and how they change; the chapters of the documentation |
//!
//! # Where to look
//!
//! | question | place |
//! | --- | --- |
//! | A success of another run leaves a run alone: where is that rule? | `record` in [`domain::check`] |
//! | When does a check go down? | `deadline` and `settle` in [`domain::check`]; the engine's `alarm` notices it |
//! | What does a ping mean to its check (keywords, methods, paused)? | `engine::apply::ping` |
//! | What does the 409 say? Any status code and its words? | `HttpError` in `wire::reply` |
//! | Which URLs and methods are there? | `wire::route` |
//! | What does the API have beyond that of Healthchecks? | `http::api::extensions` |
//! | Which fields does the API take, and what does it say of a wrong one? | `http::api::check_fields` |
//! | How long may a body be? | `wire::request_body`; every limit is in [`docs::limits`] |
//! | What happens when the disk fails? | `recover` in `engine::writer::recovery`; told in [`docs::design`]; shown by `tests/it/damage.rs` |
//! | What happens when the clock is set? | `engine::clock_jump`, `engine::writer::time`; told in [`docs::promises`] |
//! | What does a start read, and in which order? | `engine::load` |
//! | What is in the file? | [`store`], one file for each kind of row |
//! | Who may do what with which key? | `http::api::auth` |
//! | How does an API key of another server go on working? | `engine::api_keys`, [`domain::legacy_keys`] |
//! | How are projects, keys and channels made, and checks at the command line? | [`manage`] |
//! | Which settings does a kind of channel have? | `domain::channel::kinds`; what forms there are: `domain::channel::setting_field` |
//! | Who is told of a flip, and when? | `engine::apply::alert`; what holds it back: `Held` in [`domain::alert`] |
//! | How are channels tried and assigned, and deliveries listed and retried? | [`manage::channel`], [`manage::delivery`] |
//! | What is sent next, and when is it tried again? | `notify::scheduler` |
//! | Where is TLS agreed on, and when is a certificate read again? | `http::tls`; [`certificate`], `serve::reload` |
//! | How does a kind of channel send, and what do its answers mean? | `channel::kinds`; the sentences: [`channel::alert_text`] |
//! | How does a file of an earlier release open? | `store::migrations` |
//! | Who may sign in, and how long does a session last? | [`domain::user`]; `engine::apply::user`; the pages: `web::sign_in`, `web::viewer` |
//! | What is a backup, and how does it become a database again? | [`backup`]; in the file: `store::tables`, `store::restore` |
//! | What may stand in a file for `apply`, and what is said of a wrong one? | `declare::fields`, `declare::reader`; what becomes of it: `engine::config_plan` |
//! | What becomes of a Healthchecks, table by table? | `import::healthchecks`; how its sources are read: `import::source` |
//! | What does an export as lines hold, and how is it read again? | `import::export_format`; its rows, which the admin socket has too: `import::item_rows` |
//! | What is seen of an import before its end, and what does it take the place of? | `engine::apply::import`; what waits: `engine::state`; how it is handed over: `cli::import` |
//! | What does a trial hold back? | `queue` in `engine::apply::alert`; what waits for its end: `held_back` there |
//! | How is a schedule read? | [`domain::schedule`] |
//! | Which addresses may be reached, and by whom? | `outbound::address_guard` |
//! | Which pages are there, and who may see them? | `web::page_routes`; how one is added: [`web`] |
//! | Which forms does a page take, and from where? | `web::browser_security` |
//! | How does a page learn what has changed? | `engine::change_feed`, `web::live_updates` |
//! | What does `overdue run` do when the server is away? | `job::ping_sender`, `job::spool` |
//! | What is counted, and who may read it? | [`metrics`]; `http::metrics` |
//! | Which flags are there? | [`cli`]; for the server `cli::serve` |
//! | How is something added: a kind, an endpoint, a table? | [`docs::extending`] |
//! | Which test shows a promise? | [`docs::promises`] |
//!
//! # How a ping travels
//!
//! `http` reads the request and `wire::route` says what the URL names; `http::ping` makes a typed request of it; the engine's
//! [`Handle`](engine::Handle) queues it; the writer stamps it, applies it together with all that waited, commits, publishes and answers.
//! `engine::apply` decides what depends on the state (slug, `create=1`, methods, filters, paused) against what stands before it in the
//! same batch. A mail differs only in its door.
//!
//! # What always holds
//!
//! - A 200 means that it is on disk. Nothing that is read, in memory or from the file, is ahead of the file.
//! - `apply` depends on the state, the time and the command alone; a refusal leaves nothing behind.
//! - A start takes the checkpoint and the logs since then as they are. It decides nothing anew.
//! - Pings are an arrival log: a ping that changes no status writes two rows at the end of two tables and nothing else. Pruning takes the other end.
//! - The wheel's entries are hints. Whoever takes one looks at the check again and flips it at its deadline, or arms it anew.
//! - A flip and what is to be told of it are written together. What is sent was written down before; what came of it is written after.
//! - A check's rules are in `domain::check` and nowhere else; the time is an argument there.
//! - Everything is bounded: bodies, headers, connections, the queue, time, slices of housekeeping.
//! - A status code, a URL, a flag, a table, an encoding: each is stated in one place.
//! - API keys are kept as SHA-256 hashes, or as another server digested them until their first use, and looked up by them: what the time of
//!   that tells helps nobody to guess a key. No key and no check's UUID is logged.

mod accept;
pub mod admin;
pub mod backup;
pub mod blocking_threads;
pub mod certificate;
pub mod channel;
pub mod cli;
pub mod clock;
pub mod connection_threads;
pub mod declare;
pub mod discover;
pub mod docs;
pub mod domain;
pub mod engine;
pub mod http;
pub mod import;
pub mod job;
mod log_limit;
pub mod mail;
pub mod manage;
pub mod metrics;
pub mod notify;
pub mod outbound;
mod passwd;
pub mod password;
pub mod random;
pub mod serve;
pub mod smtp;
pub mod store;
pub mod web;
pub mod wheel;
mod wire;
