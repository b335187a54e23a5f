//! Configuration files against a real engine: applying gives the declared state, a second apply
//! changes nothing, and an export gives the same file.

mod documents;
mod ownership;

use std::sync::Arc;

use overdue::config::{self, ConfigApplyError, ConfigDocument, ExportedObject};
use overdue::domain::declared::{ApplyOptions, ChangeOperation, DeclaredConfig, PlannedChange};
use overdue::domain::ping::PingKind;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::Handle;
use overdue::store::Medium;
use overdue::util::clock::ManualClock;

use crate::support::commands;
use crate::support::engine::open;

/// Permits every kind of change.
pub(crate) const ALLOW_ALL: ApplyOptions = ApplyOptions {
    prune_limit: Some(10_000),
    adopt_unmanaged: true,
};
/// Permits neither deleting nor adopting objects.
pub(crate) const ALLOW_NONE: ApplyOptions = ApplyOptions {
    prune_limit: None,
    adopt_unmanaged: false,
};

/// An engine with a writer thread.
pub(crate) struct ConfigTestEngine {
    pub(crate) handle: Handle,
    pub(crate) clock: Arc<ManualClock>,
    runtime: tokio::runtime::Runtime,
}

impl ConfigTestEngine {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let (handle, writer) = open(Medium::memory(), &clock, |_| {}).unwrap();
        std::thread::spawn(|| writer.run());
        Self {
            handle,
            clock,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        }
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn apply(&self, text: &str, options: ApplyOptions) -> Result<Vec<String>, String> {
        self.run(config::apply_config(
            &self.handle,
            parse_document(text),
            options,
        ))
        .map(change_lines)
        .map_err(conflict_text)
    }

    pub(crate) fn diff(&self, text: &str, options: ApplyOptions) -> Result<Vec<String>, String> {
        self.run(config::diff_config(
            &self.handle,
            &parse_document(text),
            options,
        ))
        .map(change_lines)
        .map_err(conflict_text)
    }

    /// Reports the start of a run of the only check.
    pub(crate) fn start_run(&self) {
        let uuid = self
            .handle
            .with_state(|state| state.checks().next().unwrap().uuid);
        let start = commands::ping(uuid.as_u128(), PingKind::Start, "");
        self.run(self.handle.call(start)).unwrap().unwrap();
    }

    pub(crate) fn export(&self) -> Vec<ExportedObject> {
        config::export_config(&self.handle, None, true)
    }
}

impl Drop for ConfigTestEngine {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Parses a document, which must be valid.
pub(crate) fn parse_document(text: &str) -> DeclaredConfig {
    let mut document = ConfigDocument::empty();
    let problems = document.add_file("test", text.into());
    assert!(
        problems.is_empty(),
        "{}\n{text}",
        document.render_problems(&problems)
    );
    config::read_config(&document)
        .unwrap_or_else(|problems| panic!("{}\n{text}", document.render_problems(&problems)))
}

fn conflict_text(error: ConfigApplyError) -> String {
    match error {
        ConfigApplyError::Conflicts(conflicts) => {
            let told = conflicts.iter().map(|conflict| {
                format!(
                    "{} {}: {}",
                    conflict.object.kind.name(),
                    conflict.object.name,
                    conflict.reason
                )
            });
            told.collect::<Vec<_>>().join("\n")
        }
        error => error.to_string(),
    }
}

/// `~ check backup: grace 1h -> 15m`
fn change_lines(changes: Vec<PlannedChange>) -> Vec<String> {
    let value = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let line = |change: PlannedChange| {
        let sign = match change.operation {
            ChangeOperation::Add => '+',
            ChangeOperation::Change => '~',
            ChangeOperation::Adopt => 'a',
            ChangeOperation::Delete => '-',
            ChangeOperation::Keep => '?',
        };
        let fields = change
            .fields
            .into_iter()
            .map(|(name, from, to)| format!("{name} {} -> {}", value(from), value(to)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        format!(
            "{sign} {} {}: {}",
            change.object.kind.name(),
            change.object.name,
            if change.operation == ChangeOperation::Add {
                String::new()
            } else {
                fields
            }
        )
        .trim_end_matches([' ', ':'])
        .to_owned()
    };
    changes.into_iter().map(line).collect()
}
