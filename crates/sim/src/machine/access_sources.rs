//! The sources of accesses of a simulated machine.

use std::sync::Arc;

use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus, Error, Result,
};
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, Pid};

use super::lockstep::SharedWorld;
use crate::memory::PageAccesses;
use crate::world::World;

/// Returns the sources that a world has.
pub fn list(world: &World) -> Vec<AccessSourceStatus> {
    let counts = world.machine.params.counter_entries > 0;
    let counters = counts.then_some(AccessSourceStatus {
        kind: AccessSourceKind::Perf,
        obstacle: None,
        blind_to: "accesses that hit a cache; what does not fit the counters",
        price: "nothing",
    });
    counters.into_iter().collect()
}

/// Opens a source.
///
/// # Errors
/// `Unsupported` if the world does not have it.
pub fn open(shared: &Arc<SharedWorld>, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
    let has_it = list(&shared.lock().world).iter().any(|status| status.kind == kind);
    match has_it {
        true => Ok(Box::new(ControllerCounts { shared: Arc::clone(shared), pids: Vec::new() })),
        false => Err(Error::Unsupported {
            action: "observing accesses",
            reason: format!("this machine has no source '{kind}'"),
        }),
    }
}

/// Returns the accesses that the memory controllers counted since the last call, and clears them;
/// `None` if they count nothing.
pub fn take_counts(shared: &SharedWorld) -> Option<Vec<(Pid, Access)>> {
    let world = &mut shared.lock().world;
    let nodes = 0..world.machine.nodes.len();
    let counted = nodes.flat_map(|node| world.take_accesses(node)).map(|seen: PageAccesses| {
        let accessor = Accessor::Node(seen.from);
        (seen.pid, Access { address: seen.address, accessor, count: seen.lines })
    });
    let counted = counted.collect();
    (world.machine.params.counter_entries > 0).then_some(counted)
}

/// The access counters of the memory controllers.
struct ControllerCounts {
    shared: Arc<SharedWorld>,
    pids: Vec<Pid>,
}

impl AccessSource for ControllerCounts {
    fn kind(&self) -> AccessSourceKind {
        AccessSourceKind::Perf
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        self.pids.clone_from(&sampling.pids);
        Ok(())
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let counted = take_counts(&self.shared).unwrap_or_default();
        let wanted = counted.into_iter().filter(|(pid, _)| self.pids.binary_search(pid).is_ok());
        let sample =
            |(pid, access)| AccessSample { pid, tid: None, kind: AccessKind::Unknown, access };
        Ok(AccessBatch { samples: wanted.map(sample).collect(), ..AccessBatch::default() })
    }
}
