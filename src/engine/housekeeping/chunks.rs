//! Removes long bodies that belong to no ping from the file, chunk by chunk.

use crate::store::{Batch, StoreError};

/// Progress of the removal of chunks.
pub(super) struct ChunkPruning {
    /// True if there may be chunks to remove.
    due: bool,
    /// First upload to visit. An earlier one cannot be read.
    from: u64,
    /// Upload that is currently being removed.
    current_upload: Option<u64>,
    /// Number of removed chunks.
    pub(super) removed: u64,
}

impl ChunkPruning {
    /// Progress with a round that is due.
    pub(super) fn new_due() -> Self {
        Self {
            due: true,
            from: 0,
            current_upload: None,
            removed: 0,
        }
    }

    /// Skips the upload that could not be read, and continues after it. Returns true if an upload
    /// was the cause.
    pub(super) fn skip_unreadable(&mut self) -> bool {
        let upload = self.current_upload.take();
        self.from = upload.map_or(self.from, |upload| upload + 1);
        upload.is_some()
    }

    /// Starts a new round from the first upload.
    pub(super) fn revisit_skipped(&mut self) {
        (self.due, self.from) = (true, 0);
    }

    /// Makes a round due.
    pub(super) fn request(&mut self) {
        self.due = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.due
    }

    /// Removes some chunks of one upload that no ping refers to, up to `max_bytes` or slightly
    /// more. `upload_in_progress` stays. Returns `false` if there was nothing to write.
    pub(super) fn run_slice(
        &mut self,
        batch: &Batch,
        max_bytes: u64,
        upload_in_progress: Option<u64>,
    ) -> Result<bool, StoreError> {
        if !self.due {
            return Ok(false);
        }
        let Some(upload) = batch.first_unreferenced(self.from, upload_in_progress)? else {
            self.due = false;
            return Ok(false);
        };
        self.current_upload = Some(upload);
        self.removed += batch.remove_chunks(upload, max_bytes)? as u64;
        self.current_upload = None;
        Ok(true)
    }
}
