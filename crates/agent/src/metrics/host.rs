//! Metrics of the machine's page lists, and of the process itself.

use nodeward_machine::Machine;
use nodeward_model::ZoneLists;

use super::exposition::{Exposition, seconds};
use super::families::{PAGE_LIST, PAGE_LIST_HIGH, PROCESS_CPU, PROCESS_MEMORY};

/// Adds them. What the machine does not tell now is left out.
pub fn add(out: &mut Exposition, machine: &dyn Machine) {
    let lists = machine.page_lists().unwrap_or_default();
    let bytes = |pages: u64| (pages * machine.page_bytes()) as f64;
    let labels = |list: &ZoneLists| [list.node.to_string(), list.zone.clone()];
    out.add(&PAGE_LIST, lists.iter().map(|list| (labels(list), bytes(list.count_pages()))));
    out.add(&PAGE_LIST_HIGH, lists.iter().map(|list| (labels(list), bytes(list.high_pages()))));
    out.add_one(&PROCESS_CPU, seconds(machine.own_cpu_time_ns()));
    let own = machine.own_pid().and_then(|pid| machine.open_process(pid).ok());
    if let Some(resident) = own.and_then(|own| own.resident_bytes().ok()) {
        out.add_one(&PROCESS_MEMORY, resident as f64);
    }
}
