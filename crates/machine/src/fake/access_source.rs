//! The sources of accesses of the fake machine: what a test enters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nodeward_model::Pid;

use super::lock::lock;
use super::process::FakeProcesses;
use crate::{AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Error, Liveness, Result};

/// What waits to be taken, by source.
pub(super) type WaitingAccesses = BTreeMap<AccessSourceKind, AccessBatch>;

/// An open source; it takes the samples that wait.
pub(super) struct FakeAccessSource {
    pub(super) accesses: Arc<Mutex<WaitingAccesses>>,
    pub(super) processes: Arc<FakeProcesses>,
    pub(super) kind: AccessSourceKind,
    pub(super) pids: Vec<Pid>,
}

impl AccessSource for FakeAccessSource {
    fn kind(&self) -> AccessSourceKind {
        self.kind
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        if let Some(&pid) = sampling.pids.first()
            && !sampling.pids.iter().any(|&pid| self.is_running(pid))
        {
            return Err(Error::Gone(pid));
        }
        self.pids.clone_from(&sampling.pids);
        Ok(())
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let mut waiting = lock(&self.accesses);
        let waiting = waiting.entry(self.kind).or_default();
        let next = AccessBatch { sample_ns: waiting.sample_ns, ..AccessBatch::default() };
        let mut batch = std::mem::replace(waiting, next);
        batch.samples.retain(|sample| self.pids.binary_search(&sample.pid).is_ok());
        Ok(batch)
    }
}

impl FakeAccessSource {
    fn is_running(&self, pid: Pid) -> bool {
        let process = lock(&self.processes).get(&pid).cloned();
        process.is_some_and(|process| lock(&process).liveness() == Liveness::Running)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{Access, AccessKind, AccessSample, Accessor, CpuId, NodeId, Page, Pid};

    use super::*;
    use crate::conformance::accesses::{ALL, AccessFixture};
    use crate::fake::{FakeMachine, FakeProcess, FakeThread, PAGE_BYTES};

    fn process() -> FakeProcess {
        let thread = FakeThread::new(CpuId(0), [CpuId(0)].into_iter().collect(), 1000);
        let pages = FakeProcess::with_pages(&[Page::on(NodeId(0)); 8]);
        FakeProcess { threads: [(1, thread)].into(), ..pages }
    }

    fn sample(pid: Pid) -> AccessSample {
        let access =
            Access { address: 16 * PAGE_BYTES + 8, accessor: Accessor::Cpu(CpuId(0)), count: 1 };
        AccessSample { pid, tid: Some(1), kind: AccessKind::Read, access }
    }

    /// Goal: the fake machine's source passes the bodies for which it stands in.
    #[test]
    fn the_fake_source_conforms() {
        let machine = FakeMachine::new(false);
        machine.add_accesses(&[], 1_000_000); // from now on there is a source
        let pids = [7, 8].map(|pid| Pid::new(pid).unwrap());
        pids.iter().for_each(|&pid| machine.spawn(pid, process()));
        let is_running = |pid: &Pid| machine.process(*pid).unwrap().end_at_call.is_none();
        let work = || {
            let running = pids.into_iter().filter(is_running);
            machine.add_accesses(&running.map(sample).collect::<Vec<_>>(), 1_000_000);
        };
        let fixture = AccessFixture {
            machine: &machine,
            kind: AccessSourceKind::Registers,
            pid: pids[0],
            other: pids[1],
            work: &work,
            end_other: &|| {
                let exited = Some((0, Liveness::Exited));
                machine.update_process(pids[1], |process| process.end_at_call = exited);
            },
        };
        for (name, body) in ALL {
            println!("{name}");
            body(&fixture);
        }
    }
}
