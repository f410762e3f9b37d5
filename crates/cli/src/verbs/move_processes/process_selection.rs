//! Selects the processes of a move: by process id, by name, by control group.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use nodeward_linux::process_lookup;
use nodeward_model::{Escape as _, Pid};

use crate::args::MoveArgs;
use crate::machines::cgroups;

/// Returns the selected processes, without duplicates, in the order in which they were named.
pub fn select_processes(args: &MoveArgs, mut pids: Vec<Pid>) -> Result<Vec<Pid>> {
    let root = Path::new("/");
    for name in &args.name {
        let found = process_lookup::by_name(root, name)?;
        if found.is_empty() {
            bail!("no process is called '{name}' (names are those of ps -e, at most 15 bytes)");
        }
        pids.extend(found);
    }
    for group in &args.cgroup {
        let found = process_lookup::by_cgroup(root, group)
            .map_err(|error| cgroups::explain_missing(group, error))?;
        if found.is_empty() {
            bail!("no process is in the control group '{}'", group.escaped());
        }
        pids.extend(found);
    }
    let mut seen = BTreeSet::new();
    pids.retain(|pid| seen.insert(*pid));
    Ok(pids)
}
