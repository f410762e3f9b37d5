//! `--scheduler bpf`: a scheduler of sched_ext that runs threads at home.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use nodeward_balancer::Balancer;
use nodeward_bpf::homes::{Entered, HomesScheduler, SchedulerEnd};
use nodeward_linux::pid_namespace;
use nodeward_linux::sched_ext::SchedExtState;
use nodeward_machine::{HomeScheduler, Machine};
use nodeward_model::{Escape as _, Id as _, Nodemask, units};

/// Has a scheduler of sched_ext place threads. Where it cannot be loaded, that is said with the
/// reason, and threads are nudged.
pub fn use_bpf(balancer: &mut Balancer, machine: &dyn Machine, is_simulated: bool) {
    match BpfScheduler::load(machine, is_simulated) {
        Ok(scheduler) => {
            balancer.use_scheduler(Box::new(scheduler));
            say!(
                "nodeward: a scheduler of sched_ext runs threads at home for as long as this runs"
            );
        }
        Err(reason) => say!("nodeward: threads are nudged, not scheduled: {reason}"),
    }
}

/// The loaded scheduler, and what it was told.
struct BpfScheduler {
    loaded: HomesScheduler,
    homes: BTreeMap<u32, u64>,
}

impl BpfScheduler {
    /// Loads it.
    ///
    /// # Errors
    /// Why that is not possible here.
    fn load(machine: &dyn Machine, is_simulated: bool) -> std::result::Result<Self, String> {
        if is_simulated {
            return Err("a simulated machine has a scheduler of its own".to_owned());
        }
        if !pid_namespace::is_first().unwrap_or(false) {
            return Err("the kernel has other pids for the threads of this container".to_owned());
        }
        let topology = machine.topology().map_err(|error| error.to_string())?;
        if topology.nodes.keys().any(|node| node.number() >= HomesScheduler::NODES_MAX) {
            return Err(format!("a node has a number above {}", HomesScheduler::NODES_MAX - 1));
        }
        let root = Path::new("/");
        if let SchedExtState::Loaded { name, .. } = SchedExtState::read(root) {
            return Err(format!(
                "sched_ext has another scheduler, '{}'; stop the program that loaded it",
                name.escaped()
            ));
        }
        let loaded = HomesScheduler::load(root);
        let loaded = loaded.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
        Ok(Self { loaded, homes: BTreeMap::new() })
    }

    /// Returns why it ended, if the kernel unloaded it.
    fn end(&self) -> Result<Option<String>> {
        let text = |end: SchedulerEnd| match end.message.is_empty() {
            true => String::from_utf8_lossy(&end.reason).into_owned(),
            false => [end.reason, end.message]
                .map(|it| String::from_utf8_lossy(&it).into_owned())
                .join(": "),
        };
        Ok(self.loaded.end()?.map(text))
    }

    /// Writes what differs from what was written before.
    fn write(&mut self, homes: &BTreeMap<u32, Nodemask>, avoided: u64) -> Result<u64> {
        self.loaded.avoid(avoided)?;
        for tid in self.homes.keys().filter(|tid| !homes.contains_key(tid)) {
            self.loaded.forget(*tid)?;
        }
        let mut without_room = 0;
        let before = std::mem::take(&mut self.homes);
        for (&tid, nodes) in homes {
            let nodes = bits(nodes);
            let is_known = before.get(&tid) == Some(&nodes);
            match is_known || self.loaded.set_home(tid, nodes)? == Entered::Yes {
                true => _ = self.homes.insert(tid, nodes),
                false => without_room += 1,
            }
        }
        Ok(without_room)
    }
}

impl HomeScheduler for BpfScheduler {
    fn set_homes(
        &mut self,
        homes: &BTreeMap<u32, Nodemask>,
        keep_empty: &Nodemask,
    ) -> std::result::Result<u64, String> {
        let told = |error: anyhow::Error| format!("its maps cannot be used: {error:#}");
        if let Some(reason) = self.end().map_err(told)? {
            return Err(reason);
        }
        self.write(homes, bits(keep_empty)).map_err(told)
    }
}

impl Drop for BpfScheduler {
    /// Tells what it did, when it ends because the balancer does.
    fn drop(&mut self) {
        if let (Ok(None), Ok(counts)) = (self.loaded.end(), self.loaded.counts()) {
            say!(
                "nodeward: threads with a home ran {} there and {} elsewhere",
                units::format_ns(counts.at_home_ns),
                units::format_ns(counts.elsewhere_ns)
            );
        }
    }
}

/// Returns nodes as bits; those above 63, which this machine does not have, are left out.
fn bits(nodes: &Nodemask) -> u64 {
    nodes.iter().filter_map(|node| 1_u64.checked_shl(node.number())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: node n is bit n, as the scheduler counts them.
    #[test]
    fn nodes_are_bits() {
        assert_eq!(bits(&"0,2,63".parse().unwrap()), 1 << 63 | 0b101);
        assert_eq!(bits(&Nodemask::new()), 0);
    }
}
