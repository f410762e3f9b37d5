//! Records of the threads of a simulated machine that start and end.

use std::sync::Arc;

use nodeward_machine::{ThreadRecordBatch, ThreadRecords};

use super::lockstep::SharedWorld;

/// Open records.
pub struct SimThreadRecords {
    shared: Arc<SharedWorld>,
    number: u64,
}

impl SimThreadRecords {
    /// Opens records.
    pub fn open(shared: &Arc<SharedWorld>) -> Self {
        let number = shared.lock().world.thread_log.open();
        Self { shared: Arc::clone(shared), number }
    }
}

impl ThreadRecords for SimThreadRecords {
    fn take(&mut self) -> ThreadRecordBatch {
        self.shared.lock().world.thread_log.take(self.number)
    }
}

impl Drop for SimThreadRecords {
    fn drop(&mut self) {
        self.shared.lock().world.thread_log.close(self.number);
    }
}
