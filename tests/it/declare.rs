//! Configuration as files, against a real engine: what is applied is so, is so once, and is written as it was declared.

mod documents;
mod ownership;

use overdue::clock::ManualClock;
use overdue::declare::{self, DeclareError, Document, Object};
use overdue::domain::moment::Moment;
use overdue::domain::wanted::{Manner, Op, PlannedChange, Wanted};
use overdue::engine::Handle;
use overdue::store::Medium;

use crate::support::engine::open;

/// Whatever may be done is.
pub(crate) const ANYTHING: Manner = Manner { prune: Some(10_000), adopts: true };
/// Nothing is deleted, and what is nobody's is left alone.
pub(crate) const CAREFUL: Manner = Manner { prune: None, adopts: false };

/// An engine with a writer of its own.
pub(crate) struct Site {
    pub(crate) handle: Handle,
    runtime: tokio::runtime::Runtime,
}

impl Site {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(Moment::from_secs(1_800_000_000));
        let (handle, writer) = open(Medium::memory(), &clock, |_| {}).unwrap();
        std::thread::spawn(|| writer.run());
        Self { handle, runtime: tokio::runtime::Builder::new_current_thread().build().unwrap() }
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn apply(&self, text: &str, manner: Manner) -> Result<Vec<String>, String> {
        self.run(declare::apply(&self.handle, wanted(text), manner)).map(told).map_err(refused)
    }

    pub(crate) fn diff(&self, text: &str, manner: Manner) -> Result<Vec<String>, String> {
        self.run(declare::diff(&self.handle, &wanted(text), manner)).map(told).map_err(refused)
    }

    pub(crate) fn export(&self) -> Vec<Object> {
        declare::export(&self.handle, None, true)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// What a document wants, in which nothing may be wrong.
pub(crate) fn wanted(text: &str) -> Wanted {
    let mut document = Document::empty();
    let problems = document.add("test", text.into());
    assert!(problems.is_empty(), "{}\n{text}", document.told(&problems));
    declare::read(&document).unwrap_or_else(|problems| panic!("{}\n{text}", document.told(&problems)))
}

fn refused(error: DeclareError) -> String {
    match error {
        DeclareError::Conflicts(conflicts) => {
            let told = conflicts.iter().map(|conflict| format!("{} {}: {}", conflict.at.kind.name(), conflict.at.name, conflict.reason));
            told.collect::<Vec<_>>().join("\n")
        }
        error => error.to_string(),
    }
}

/// `~ check backup: grace 1h -> 15m`
fn told(changes: Vec<PlannedChange>) -> Vec<String> {
    let value = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let line = |change: PlannedChange| {
        let sign = match change.op {
            Op::Add => '+',
            Op::Change => '~',
            Op::Adopt => 'a',
            Op::Delete => '-',
            Op::Leave => '?',
        };
        let fields = change.fields.into_iter().map(|(name, from, to)| format!("{name} {} -> {}", value(from), value(to)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        format!("{sign} {} {}: {}", change.at.kind.name(), change.at.name, if change.op == Op::Add { String::new() } else { fields })
            .trim_end_matches([' ', ':'])
            .to_owned()
    };
    changes.into_iter().map(line).collect()
}
