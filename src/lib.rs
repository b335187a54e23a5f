//! overdue sends alerts when a scheduled job does not report. Jobs ping a URL. A check that misses
//! its deadline becomes late and then down. Checks are managed through the Management API v3 of
//! Healthchecks. Alerts go out through thirty kinds of channel. overdue is one process with one
//! database file.
//!
//! # Layers
//!
//! A module imports only from layers below its own. Modules that accept input never import each
//! other.
//!
//! | layer | modules | contents |
//! | --- | --- | --- |
//! | 10 | [`cli`] | every subcommand and flag, once, with help, environment variable, default |
//! | 9 | [`serve`] | opens the engine, starts the listeners, drains them in order at SIGTERM |
//! | 8 | [`http`], [`smtp`], [`admin`] | listeners: turn raw input into a domain type or an error |
//! | 7 | [`web`] | pages of the dashboard |
//! | 6 | `wire` | HTTP types of API and dashboard: bodies, errors, URLs that programs call |
//! | 5 | [`manage`] | manages projects, keys, channels, checks, users; generates their secrets |
//! | 5 | [`notify`] | sends the rows of the outbox and reports the results |
//! | 5 | [`job`] | runs a job at the command line and reports it to a server |
//! | 5 | [`declare`] | reads, compares, applies and writes configuration files |
//! | 5 | [`discover`] | finds jobs in crontabs and timers, and proposes checks for them |
//! | 5 | [`import`] | reads databases, dumps and exports of other servers; writes the export |
//! | 5 | [`backup`] | backups: writes the database as a stream of rows, inspects and restores it |
//! | 5 | `accept`, [`connection_threads`] | accepts connections; threads for HTTP connections |
//! | 5 | [`blocking_threads`], [`certificate`] | threads for slow work; reloading of certificates |
//! | 4 | [`engine`] | the only writer: commands, writer thread, state in memory, queries |
//! | 3 | [`store`] | the database file; the only module that uses redb and MessagePack |
//! | 3 | [`outbound`] | outgoing traffic: name resolution, address checks, HTTP, mail, commands |
//! | 2 | [`channel`] | messages of each kind: texts, formats, requests, meaning of responses |
//! | 2 | [`mail`] | extracts subject and text from a mail |
//! | 2 | [`metrics`] | counters of the server, as text for Prometheus |
//! | 2 | [`wheel`], [`clock`], [`random`] | deadlines in ticks; the source of time and randomness |
//! | 2 | [`password`], `passwd` | password hashes; the users of the machine |
//! | 2 | `log_limit` | limit on the log lines that clients can cause |
//! | 1 | [`domain`] | rules for checks, pings, flips, schedules and kinds of channel |
//! | 1 | [`docs`] | chapters of the documentation |
//!
//! # Where to look
//!
//! - Rule that the success of another run leaves a run unchanged: `record_ping` in
//!   [`domain::check`].
//! - Time at which a check goes down: `deadline` and `apply_deadline` in [`domain::check`]; noticed
//!   by `engine::deadline_wheel`.
//! - Meaning of a ping for its check (keywords, methods, paused): `engine::apply::ping`.
//! - Status codes and error texts, such as for a 409: `HttpError` in `wire::reply`.
//! - URLs and methods: `wire::route`.
//! - API extensions beyond Healthchecks: `http::api::extensions`.
//! - API fields and their errors: `http::api::check_fields`.
//! - Maximum length of a body: `wire::request_body`; every limit is in [`docs::limits`].
//! - Disk failures: `recover` in `engine::writer::recovery`; described in [`docs::design`]; tested
//!   by `tests/it/damaged_database.rs`.
//! - Clock changes: `engine::clock_jump`, `engine::writer::time`; described in [`docs::promises`].
//! - Data read at startup, and its order: `engine::load`.
//! - Contents of the database file: [`store`], one file for each kind of row.
//! - Permissions of keys: `http::api::auth`.
//! - API keys of another server that keep working: `engine::api_keys`, [`domain::legacy_keys`].
//! - Creation of projects, keys and channels, and of checks at the command line: [`manage`].
//! - Settings of a channel kind: `domain::channel::kinds`; types of settings:
//!   `domain::channel::setting_field`.
//! - Recipients and time of an alert: `engine::apply::alert`; reasons for holding it back:
//!   `HoldReason` in [`domain::alert`].
//! - Testing and assigning channels, listing and retrying deliveries: [`manage::channel`],
//!   [`manage::delivery`].
//! - Order and retries of deliveries: `notify::scheduler`.
//! - TLS: `http::tls`; reloading of certificates: [`certificate`], `serve::reload`.
//! - Requests of a channel kind and the meaning of responses: `channel::kinds`; sentences:
//!   [`channel::alert_text`].
//! - Opening a file of an earlier release: `store::migrations`.
//! - Sign-in and sessions: [`domain::user`], `engine::apply::user`; pages: `web::sign_in`,
//!   `web::viewer`.
//! - Backup and restore: [`backup`]; in the file: `store::tables`, `store::restore`.
//! - Fields of files for `apply` and their errors: `declare::fields`, `declare::reader`; planned
//!   changes: `engine::config_plan`.
//! - Import from Healthchecks, table by table: `import::healthchecks`; its sources:
//!   `import::source`.
//! - Export as lines, and reading it: `import::export_format`; its rows, which the admin socket
//!   uses too: `import::item_rows`.
//! - State of an import before its commit, and objects that it replaces: `engine::apply::import`;
//!   pending items: `engine::state`; transfer: `cli::import`.
//! - Alerts that a trial holds back: `HoldReason::Trial` in [`domain::alert`] and
//!   `engine::apply::alert`.
//! - Parsing of schedules: [`domain::schedule`].
//! - Allowed outgoing addresses: `outbound::address_guard`.
//! - Pages and their permissions: `web::page_routes`; adding a page: [`web`].
//! - Forms that a page accepts, and their allowed origins: `web::browser_security`.
//! - Live updates of pages: `engine::change_feed`, `web::live_updates`.
//! - `overdue run` while the server is unreachable: `job::ping_sender`, `job::spool`.
//! - Metrics and access to them: [`metrics`], `http::metrics`.
//! - Flags: [`cli`]; of the server: `cli::serve`.
//! - Adding a channel kind, an endpoint or a table: [`docs::extending`].
//! - Tests that cover a promise: [`docs::promises`].
//!
//! # Path of a ping
//!
//! `http` reads the request, and `wire::route` resolves the URL. `http::ping` turns it into a typed
//! request. The engine's [`Handle`](engine::Handle) queues it. The writer stamps it, applies it
//! together with all queued commands, commits, publishes and answers. `engine::apply` decides
//! everything that depends on the state (slug, `create=1`, methods, filters, paused), including
//! changes made earlier in the same batch. A mail differs only in its listener.
//!
//! # Invariants
//!
//! - A 200 means that the data is on disk. No value that is read, in memory or from the file, is
//!   ahead of the file.
//! - `apply` depends only on the state, the time and the command. A refused command changes
//!   nothing.
//! - Startup loads the checkpoint and the logs since then as they are. It repeats no decision.
//! - Pings are an arrival log: a ping that changes no status appends two rows to two tables and
//!   writes nothing else. Pruning deletes at the other end.
//! - Entries of the wheel are hints. Code that takes one examines the check again, and flips it at
//!   its deadline or schedules it again.
//! - A flip and its alerts are written together. A message is written before it is sent; its result
//!   is written afterwards.
//! - The rules for a check are in `domain::check` and nowhere else. The time is an argument there.
//! - Everything is bounded: bodies, headers, connections, the queue, time, slices of housekeeping.
//! - A status code, a URL, a flag, a table, an encoding: each is defined in one place.
//! - API keys are stored as SHA-256 hashes, or as the digest of another server until their first
//!   use. Lookups use the hash, so their timing does not help to guess a key. No key and no UUID of
//!   a check is logged.

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
