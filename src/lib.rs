//! overdue sends alerts when a scheduled job does not report. Jobs ping a URL. A check that misses
//! its deadline becomes late and then down. Checks are managed through the Management API v3 of
//! Healthchecks. Alerts go out through thirty kinds of channel. overdue is one process with one
//! database file.
//!
//! # Layers
//!
//! A module imports only from layers below its own. Modules that accept input never import each
//! other. `a::b` is a part of `a` with a layer of its own.
//!
//! | layer | modules | contents |
//! | --- | --- | --- |
//! | 10 | [`cli`] | every subcommand and flag, once, with help, environment variable, default |
//! | 9 | [`server`] | opens the engine, starts the listeners, drains them in order at SIGTERM |
//! | 8 | [`http`] | pings, Management API, badges and metrics over HTTP |
//! | 8 | [`smtp`], [`admin`] | pings by mail; admin API for the command line and the instance key |
//! | 7 | [`http::dashboard`] | pages of the dashboard |
//! | 6 | `http::common` | requests and replies: bodies, errors, URLs, addresses of clients |
//! | 5 | [`operations`] | changes to projects, keys, channels, checks, users; generates secrets |
//! | 5 | [`notifier`] | sends the rows of the outbox and reports the results |
//! | 5 | [`agent`] | runs a job and reports it to a server; finds jobs in crontabs and timers |
//! | 5 | [`config`] | reads, compares, applies and writes configuration files |
//! | 5 | [`import`] | reads databases, dumps and exports of other servers; writes the export |
//! | 5 | [`backup`] | backups: writes the database as a stream of rows, encrypts and restores it |
//! | 5 | [`runtime`] | accepting of connections, threads, reloading of certificates |
//! | 4 | [`engine`] | the only writer: commands, writer thread, state in memory, queries |
//! | 3 | [`store`] | the database file; the only module that uses redb and MessagePack |
//! | 3 | [`outbound`] | outgoing traffic: name resolution, address checks, HTTP, mail, commands |
//! | 2 | [`channels`] | kinds of channel: settings, texts, requests, meaning of responses |
//! | 2 | [`mail`] | extracts subject and text from a mail |
//! | 2 | [`metrics`] | counters of the server, as text for Prometheus |
//! | 2 | [`util`] | clock, randomness, timing wheel, password hashes, limits |
//! | 1 | [`domain`] | rules for checks, pings, flips, schedules and settings of channels |
//! | 1 | `util::sync` | locks that outlive a panic |
//! | 1 | [`docs`] | chapters of the documentation |
//!
//! # Where to look
//!
//! - Rule that the success of another run leaves a run unchanged: `record_ping` in
//!   [`domain::check`].
//! - Status of a check at a time (late, down): `visible_status` in [`domain::check`]; time at which
//!   it goes down: `deadline` and `apply_deadline` there; noticed by `engine::deadline_wheel`.
//! - Meaning of a ping for its check (keywords, methods, paused): `engine::apply::ping`.
//! - Status codes and error texts, such as for a 409: `HttpError` in `http::common::reply`.
//! - URLs: `http::routes`; endpoints of the API with their methods, permissions and handlers:
//!   `http::api::endpoints`.
//! - API extensions beyond Healthchecks: `http::api::extensions`.
//! - Fields of a check in the API, files, flags and forms: `domain::check_edit::fields`; their
//!   errors in the API: `http::api::check_fields`.
//! - Maximum length of a body: `http::common::request_body`; every limit is in [`docs::limits`].
//! - Limits of memory, of concurrent work and of rates: built on `util::byte_budget`,
//!   `util::keyed_semaphore` and `util::token_bucket`.
//! - Limits of connections: `http::connection_limit`; of SMTP: [`smtp`].
//! - Disk failures: `recover` in `engine::writer::recovery`; described in [`docs::design`]; tested
//!   by `tests/it/damaged_database.rs`.
//! - Clock jumps: `engine::clock_jump`, `engine::writer::time`; described in [`docs::promises`].
//! - Data read at startup, and its order: `engine::load`.
//! - Contents of the database file: [`store`], one file for each kind of row.
//! - Durability of a batch, and what is on disk after a kill: `store::log`, `store::store_log`;
//!   when the database is synced: `maintain_log` in `engine::writer::recovery`; space of its file:
//!   `store::file_space`.
//! - Operation of several machines: `server::cluster`; their status: `metrics::cluster`; answers
//!   without a leader: `server::cluster::stale_reads`, `engine::stale_view`; the database of a
//!   follower: `store::follower`, `server::cluster::replica`; the log of a leader:
//!   `store::log::shared`, `server::cluster::lease`; simulation of both:
//!   `tests/it/simulation/cluster.rs`.
//! - Permissions of keys: `http::api::auth`.
//! - API keys of another server that keep working: `engine::api_keys`, [`domain::legacy_keys`].
//! - Endpoints of the admin API: `admin::routes`; its form as HTTP: `admin::encoding`.
//! - Creation of projects, keys and channels, and of checks at the command line: [`operations`].
//! - Kinds of channel, with their settings, requests and the meaning of responses:
//!   `channels::kinds`; types of settings: `domain::channel::setting_field`.
//! - Recipients of an alert: `engine::apply::alert`; its time: `engine::apply::alert_hold`; reasons
//!   for holding it back: `HoldReason` in [`domain::alert`].
//! - Testing and assigning channels, listing and retrying deliveries: [`operations::channel`],
//!   [`operations::delivery`].
//! - Order and retries of deliveries: `notifier::scheduler`; reminders: `notifier::reminders`.
//! - Audit log: [`domain::audit`]; written with the changes of an attributed command:
//!   `engine::apply::audit`; actor of a command: `Handle::with_actor`.
//! - Summaries by mail: periods in `domain::user::summary`, contents and sending in
//!   `notifier::summary`, settings on the page `http::dashboard::summary_settings`.
//! - Result of a delivery: `engine::apply::delivery`; log of deliveries: `store::outbox`.
//! - Placeholders of webhooks: `channels::template`.
//! - TLS: `http::tls`; reloading of certificates: [`runtime::certificate`], `server::reload`;
//!   certificates by ACME: `server::acme`.
//! - Sentences of alerts: [`channels::alert_text`].
//! - Opening a file of an earlier release: `store::migrations`.
//! - Sign-in and sessions: [`domain::user`], `engine::apply::user`; pages:
//!   `http::dashboard::sign_in`, `http::dashboard::viewer`.
//! - Documentation: pages in `http::dashboard::chapters`, static site in
//!   `http::dashboard::docs_site`.
//! - Sign-in at OpenID Connect providers: `http::dashboard::external_sign_in`; their file:
//!   `config::identity_providers`; permissions by groups: `domain::user::external_identity`.
//! - Backup and restore: [`backup`]; pauses while it runs: `engine::throttle`; in the file:
//!   `store::tables`, `store::restore`.
//! - Fields of files for `apply` and their errors: `config::fields`, `config::reader`; planned
//!   changes: `engine::config_plan`.
//! - Import from Healthchecks, table by table: `import::healthchecks`; its sources:
//!   `import::source`.
//! - Export as lines, and reading it: `import::export_format`; its rows, which the admin socket
//!   uses too: `import::item_rows`.
//! - State of an import before its commit, and objects that it replaces: `engine::apply::import`;
//!   staged objects: `engine::state::imports`; transfer: `import::transfer`; in the browser:
//!   `http::dashboard::import`.
//! - Alerts that a trial holds back: `HoldReason::Trial` in [`domain::alert`] and
//!   `engine::apply::alert_hold`.
//! - Parsing of schedules: [`domain::schedule`].
//! - Allowed outgoing addresses: `outbound::address_guard`.
//! - Client of etcd: `server::cluster::etcd`; its connections: `outbound::http2`.
//! - Pages and their permissions: `http::dashboard::page_routes`; request to a page:
//!   `PageRequest` in `http::dashboard::page_request`; adding a page: [`http::dashboard`].
//! - Forms that a page accepts, and their allowed origins: `http::dashboard::browser_security`.
//! - Lists of checks: `http::dashboard::check_list`; search over everything:
//!   `http::dashboard::search`; undoing: `http::dashboard::undo`, `domain::check::pause`; timeline
//!   and comparison of runs: `http::dashboard::check`.
//! - Live updates of pages: `engine::change_feed`, `http::dashboard::live_updates`.
//! - `overdue run` while the server is unreachable: `agent::ping_sender`, `agent::spool`.
//! - Metrics and access to them: [`metrics`], `http::metrics`.
//! - Flags: [`cli`]; of the server: `cli::serve`.
//! - Adding a channel kind, an endpoint or a table: [`docs::extending`].
//! - Order of locks: `util::sync`. Inputs of fuzz tests: `util::fuzzing`. Schedules of threads:
//!   `util::interleavings`.
//! - Tests that cover a promise: [`docs::promises`].
//!
//! # Path of a ping
//!
//! `http` reads the request, and `http::routes` resolves the URL. `http::ping` turns it into
//! a typed request. The engine's [`Handle`](engine::Handle) queues it. The writer stamps it,
//! applies it together with all queued commands, appends their rows to the journal, publishes and
//! answers. `engine::apply`
//! decides everything that depends on the state (slug, `create=1`, methods, filters, paused),
//! including changes made earlier in the same batch. A ping by mail takes the same path from the
//! handle on.
//!
//! # Invariants
//!
//! - A 200 means that the data is on disk, in the journal or in the database. Readers never see a
//!   value that is not on disk.
//! - `apply` depends only on the state, the time and the command. A refused command changes
//!   nothing.
//! - Startup replays the rows in the journal, then loads the checkpoint and the later log entries.
//!   It does not apply commands again.
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

pub mod admin;
pub mod agent;
pub mod backup;
pub mod channels;
pub mod cli;
pub mod config;
pub mod docs;
pub mod domain;
pub mod engine;
pub mod http;
pub mod import;
pub mod mail;
pub mod metrics;
pub mod notifier;
pub mod operations;
pub mod outbound;
pub mod runtime;
pub mod server;
pub mod smtp;
pub mod store;
pub mod util;
