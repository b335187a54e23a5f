//! Import of an uploaded file on a thread of its own: it previews the file, waits for the decision
//! of the user, and imports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use crate::domain::import_item::{ImportId, ImportItem, NumberedFlip, NumberedPing};
use crate::engine::Handle;
use crate::engine::command::import::{ImportFinishOptions, LocalChanges};
use crate::import::transfer::ImportTarget;
use crate::import::{ImportProgress, ImportReport, UploadError, UploadedSource};
use crate::operations::{OperationError, import};
use crate::util::sync::{Mutex, lock};

/// Time for which an uploaded file waits for the decision: see [limits](crate::docs::limits).
const DECISION_TIMEOUT: Duration = Duration::from_secs(3600);

/// Decision of the user about a previewed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ImportDecision {
    /// Imports it.
    Import {
        /// True if alerts are sent from now on.
        is_live: bool,
        /// True if projects whose checks were pinged or changed here are replaced, too.
        replaces_changed: bool,
    },
    /// Discards it.
    Discard,
}

/// Stage of an import.
pub(super) enum ImportStage {
    /// The file is being read.
    Previewing,
    /// The user has to decide.
    Previewed {
        /// Report of the dry run.
        report: Box<ImportReport>,
        /// Local changes that would be lost.
        lost: Option<LocalChanges>,
    },
    /// It is being imported.
    Importing,
    /// It is imported.
    Finished {
        /// Number of imported projects.
        project_count: usize,
        /// True if alerts are sent.
        is_live: bool,
    },
    /// Nothing was imported. The reason may have several lines.
    Failed(String),
    /// The user has discarded it, or has not decided in time.
    Discarded,
}

impl ImportStage {
    fn is_over(&self) -> bool {
        matches!(
            self,
            Self::Finished { .. } | Self::Failed(_) | Self::Discarded
        )
    }
}

/// Import of an uploaded file.
pub(super) struct ImportJob {
    pub(super) id: Uuid,
    pub(super) file_name: String,
    stage: Mutex<ImportStage>,
    /// Progress of the stage in percent.
    progress: AtomicU8,
    decision: SyncSender<ImportDecision>,
}

impl ImportJob {
    /// Calls `look` with the stage.
    pub(super) fn with_stage<T>(&self, look: impl FnOnce(&ImportStage) -> T) -> T {
        look(&lock(&self.stage))
    }

    fn set_stage(&self, stage: ImportStage) {
        self.progress.store(0, Ordering::Relaxed);
        *lock(&self.stage) = stage;
    }

    /// Progress of the stage in percent.
    pub(super) fn progress_percent(&self) -> u8 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Passes on the decision of the user.
    ///
    /// # Errors
    /// If none is expected, or a decision is missing for local changes.
    pub(super) fn decide(&self, decision: ImportDecision) -> Result<(), &'static str> {
        let mut stage = lock(&self.stage);
        let ImportStage::Previewed { lost, .. } = &*stage else {
            return Err("the import no longer waits for a decision");
        };
        let is_loss_accepted = !matches!(
            decision,
            ImportDecision::Import {
                replaces_changed: false,
                ..
            }
        );
        if lost.is_some() && !is_loss_accepted {
            return Err("confirm that changes made here are lost");
        }
        if self.decision.try_send(decision).is_err() {
            return Err("the import no longer waits for a decision");
        }
        *stage = match decision {
            ImportDecision::Import { .. } => ImportStage::Importing,
            ImportDecision::Discard => ImportStage::Discarded,
        };
        Ok(())
    }

    /// Previews the file, waits for the decision, and imports it.
    fn run(
        &self,
        mut source: UploadedSource,
        handle: &Handle,
        decisions: &Receiver<ImportDecision>,
    ) {
        let result = self.preview(&mut source, handle);
        match result {
            Ok((report, lost)) => self.set_stage(ImportStage::Previewed {
                report: Box::new(report),
                lost: Some(lost).filter(|lost| *lost != LocalChanges::default()),
            }),
            Err(reason) => return self.set_stage(ImportStage::Failed(reason)),
        }
        let Ok(ImportDecision::Import {
            is_live,
            replaces_changed,
        }) = decisions.recv_timeout(DECISION_TIMEOUT)
        else {
            return self.set_stage(ImportStage::Discarded);
        };
        let imported = EngineTarget::new(handle).and_then(|target| {
            let modes = (is_live, replaces_changed);
            source
                .import(target, modes, handle.now(), &mut self.progress_callback())
                .map_err(error_text)
        });
        self.set_stage(match imported {
            Ok(project_count) => ImportStage::Finished {
                project_count,
                is_live,
            },
            Err(reason) => ImportStage::Failed(reason),
        });
    }

    fn preview(
        &self,
        source: &mut UploadedSource,
        handle: &Handle,
    ) -> Result<(ImportReport, LocalChanges), String> {
        let target = EngineTarget::new(handle)?;
        source
            .preview(target, handle.now(), &mut self.progress_callback())
            .map_err(error_text)
    }

    fn progress_callback(&self) -> impl FnMut(ImportProgress) {
        |ImportProgress { done, total, .. }| {
            let percent = done.saturating_mul(100).checked_div(total).unwrap_or(0);
            let percent = u8::try_from(percent.min(100)).unwrap_or(100);
            self.progress.store(percent, Ordering::Relaxed);
        }
    }
}

fn error_text(error: UploadError<OperationError>) -> String {
    match error {
        UploadError::Source(reason) => reason,
        UploadError::Target(error) => error.to_string(),
    }
}

/// Place for the import of the server.
#[derive(Default)]
pub(in crate::http::dashboard) struct ImportSlot(Mutex<Option<Arc<ImportJob>>>);

impl ImportSlot {
    /// Import that was started last.
    pub(super) fn job(&self) -> Option<Arc<ImportJob>> {
        lock(&self.0).clone()
    }

    /// Import that is not over.
    pub(super) fn open_job(&self) -> Option<Arc<ImportJob>> {
        self.job()
            .filter(|job| job.with_stage(|stage| !stage.is_over()))
    }

    /// Starts the import of a file. `handle` has the user as the actor.
    ///
    /// # Errors
    /// If another import is open, or no thread can be started.
    pub(super) fn start(
        &self,
        handle: Handle,
        file_name: String,
        source: UploadedSource,
    ) -> Result<Uuid, &'static str> {
        let mut slot = lock(&self.0);
        if slot
            .as_ref()
            .is_some_and(|job| job.with_stage(|stage| !stage.is_over()))
        {
            return Err("another import is open: finish or discard it first");
        }
        let (decision, decisions) = sync_channel(1);
        let job = Arc::new(ImportJob {
            id: handle.random().uuid(),
            file_name,
            stage: Mutex::new(ImportStage::Previewing),
            progress: AtomicU8::new(0),
            decision,
        });
        let running = Arc::clone(&job);
        let run = move || {
            let work = std::panic::AssertUnwindSafe(|| running.run(source, &handle, &decisions));
            if std::panic::catch_unwind(work).is_err() {
                let reason = "the import ended by a bug; the log of the server has more";
                running.set_stage(ImportStage::Failed(reason.into()));
            }
        };
        let started = std::thread::Builder::new().name("import".into()).spawn(run);
        started.map_err(|_| "no thread can be started at the moment")?;
        let id = job.id;
        *slot = Some(job);
        Ok(id)
    }
}

/// Engine of this server, which takes the steps of an import.
struct EngineTarget {
    handle: Handle,
    runtime: Runtime,
}

impl EngineTarget {
    fn new(handle: &Handle) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().build();
        Ok(Self {
            handle: handle.clone(),
            runtime: runtime.map_err(|error| error.to_string())?,
        })
    }
}

impl ImportTarget for EngineTarget {
    type Error = OperationError;

    fn begin(&mut self, object_count: u64, check_count: u64) -> Result<ImportId, OperationError> {
        let begun = import::begin(&self.handle, object_count, check_count);
        self.runtime.block_on(begun)
    }

    fn add_log_entries(
        &mut self,
        import: ImportId,
        pings: Vec<NumberedPing>,
        flips: Vec<NumberedFlip>,
    ) -> Result<(), OperationError> {
        let added = import::add_log_entries(&self.handle, import, pings, flips);
        self.runtime.block_on(added)
    }

    fn add_items(
        &mut self,
        import: ImportId,
        items: Vec<ImportItem>,
    ) -> Result<(), OperationError> {
        let added = import::add_items(&self.handle, import, items);
        self.runtime.block_on(added)
    }

    fn dry_run(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), OperationError> {
        let preview = import::dry_run(&self.handle, import, options);
        self.runtime.block_on(preview)
    }

    fn finish(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), OperationError> {
        let finished = import::finish(&self.handle, import, options);
        self.runtime.block_on(finished)
    }

    fn abandon(&mut self, import: ImportId) {
        import::queue_abandonment(&self.handle, import);
    }
}
