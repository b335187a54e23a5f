//! Tests of the threads that use the engine, under many schedules: see `util::interleavings`.

mod reopening;
mod waiting;
mod writing;
