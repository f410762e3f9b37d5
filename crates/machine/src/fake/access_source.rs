//! The source of accesses of the fake machine: what a test enters.

use std::sync::{Arc, Mutex};

use nodeward_model::Pid;

use super::lock::lock;
use crate::{AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Result};

/// The open source; it takes the samples that wait.
pub(super) struct FakeAccessSource {
    pub(super) accesses: Arc<Mutex<Option<AccessBatch>>>,
    pub(super) pids: Vec<Pid>,
}

impl AccessSource for FakeAccessSource {
    fn kind(&self) -> AccessSourceKind {
        AccessSourceKind::Registers
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        self.pids.clone_from(&sampling.pids);
        Ok(())
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let mut waiting = lock(&self.accesses);
        let mut batch = waiting.as_mut().map(std::mem::take).unwrap_or_default();
        if let Some(next) = waiting.as_mut() {
            next.sample_ns = batch.sample_ns;
        }
        batch.samples.retain(|sample| self.pids.binary_search(&sample.pid).is_ok());
        Ok(batch)
    }
}
