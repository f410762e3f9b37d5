//! What the words of `move` say: processes, nodes, and kinds of memory.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use nodeward_model::{MappingKind, Pid};

use crate::args::MoveArgs;

/// The operands `PID... FROM TO`.
pub struct Operands<'a> {
    /// The processes that are named by pid.
    pub pids: Vec<Pid>,
    /// FROM.
    pub from: &'a str,
    /// TO.
    pub to: &'a str,
}

impl<'a> Operands<'a> {
    /// Parses them.
    ///
    /// # Errors
    /// If a word is missing, or names no process.
    pub fn parse(args: &'a MoveArgs) -> Result<Self> {
        let [pids @ .., from, to] = &args.operands[..] else { bail!("FROM and TO are missing") };
        let by_other_means = !args.name.is_empty() || !args.cgroup.is_empty();
        if pids.is_empty() && !by_other_means {
            bail!("no process is named: give a PID, --name or --cgroup before '{from} {to}'");
        }
        let pids = pids.iter().map(|pid| Ok(pid.parse()?)).collect::<Result<Vec<Pid>>>()?;
        Ok(Self { pids, from, to })
    }
}

/// Returns the selected kinds of memory.
pub fn kinds(args: &MoveArgs) -> BTreeSet<MappingKind> {
    if !args.only.is_empty() {
        return args.only.iter().copied().collect();
    }
    MappingKind::ALL.into_iter().filter(|kind| !args.exclude.contains(kind)).collect()
}
