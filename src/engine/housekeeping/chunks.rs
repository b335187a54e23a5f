//! Long bodies that no ping has any more, or never had, leave the file piece by piece.

use crate::store::{Batch, StoreError};

/// How far the removal of pieces is.
pub(super) struct ChunkPruning {
    /// There may be some to remove.
    due: bool,
    /// Uploads before this stay: one of them cannot be read.
    from: u64,
    /// What is being removed at this moment.
    current_upload: Option<u64>,
    /// Pieces that were removed.
    pub(super) removed: u64,
}

impl ChunkPruning {
    /// A look is due.
    pub(super) fn new_due() -> Self {
        Self { due: true, from: 0, current_upload: None, removed: 0 }
    }

    /// Leaves what could not be read, if that was a piece, and begins again behind it; whether it was.
    pub(super) fn skip_unreadable(&mut self) -> bool {
        let tried = self.current_upload.take();
        self.from = tried.map_or(self.from, |tried| tried + 1);
        tried.is_some()
    }

    /// Makes a look due.
    pub(super) fn request(&mut self) {
        self.due = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.due
    }

    /// Removes some pieces that no ping has: of one upload, so many bytes or a little more. That which is being `written` stays. `false`
    /// when there was nothing to write.
    pub(super) fn run_slice(&mut self, batch: &Batch, most_bytes: u64, written: Option<u64>) -> Result<bool, StoreError> {
        if !self.due {
            return Ok(false);
        }
        let Some(upload) = batch.first_unreferenced(self.from, written)? else {
            self.due = false;
            return Ok(false);
        };
        self.current_upload = Some(upload);
        self.removed += batch.remove_chunks(upload, most_bytes)? as u64;
        self.current_upload = None;
        Ok(true)
    }
}
