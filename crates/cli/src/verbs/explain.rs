//! `nodeward explain`: reasons, and what the balancer would do with a process.

use std::path::Path;

use anyhow::{Result, bail};
use nodeward_engine::Live;
use nodeward_engine::balance::{BalanceSettings, Balancer, ProcessRow, RoundReport};
use nodeward_machine::Error;
use nodeward_model::{Pid, SkipReason, Wanted};
use nodeward_policy::home::Reason;

use crate::args::{ExplainArgs, Subject};
use crate::exit::Exit;
use crate::machine::Chosen;
use crate::output::{explain, print};
use crate::settings::Places;

/// Explains what was named, or all reasons.
pub fn run(args: &ExplainArgs, flag: Option<&Path>) -> Result<Exit> {
    let (mut skipped, mut homes, mut pids) = (Vec::new(), Vec::new(), Vec::new());
    for subject in &args.subjects {
        match *subject {
            Subject::Skip(reason) => skipped.push(reason),
            Subject::Home(reason) => homes.push(reason),
            Subject::Process(pid) => pids.push(pid),
        }
    }
    if args.subjects.is_empty() {
        (skipped, homes) = (SkipReason::ALL.to_vec(), Reason::ALL.to_vec());
    }
    if args.on.machine.is_some() && pids.is_empty() {
        bail!("--machine is for the processes that are explained: name a PID");
    }
    let would = if pids.is_empty() { None } else { Some(Would::find(args, flag, &pids)?) };
    print(&match args.output.json {
        true => format!("{}\n", explain::json(&skipped, &homes, would.as_ref())),
        false => explain::text(&skipped, &homes, would.as_ref()),
    })?;
    Ok(Exit::Done)
}

/// What would be done with processes.
pub struct Would {
    /// By which settings.
    pub settings: BalanceSettings,
    /// The round in which nothing was done.
    pub report: RoundReport,
    /// Those that were asked for.
    pub rows: Vec<ProcessRow>,
}

impl Would {
    fn find(args: &ExplainArgs, flag: Option<&Path>, pids: &[Pid]) -> Result<Self> {
        let layer = Places::of(flag).layer()?.balance;
        let settings = layer.decided(false)?;
        let machine = Chosen::open(&args.on, args.seed)?.shared();
        for &pid in pids {
            machine.hold(pid)?;
        }
        // Also those that the settings leave out have a reason, and homes depend on all others.
        let wanted = Wanted::default();
        let live = Live::default();
        let mut balancer = Balancer::new(machine, wanted, settings.clone(), None)?;
        for &pid in pids {
            balancer.look_first(pid);
        }
        balancer.warm_up(&live)?;
        let report = balancer.round(&live)?;
        let row = |&pid: &Pid| match balancer.explain(pid) {
            Some(row) => Ok(row.clone()),
            None => Err(missing(&report, pid)),
        };
        let rows = pids.iter().map(row).collect::<Result<_>>()?;
        Ok(Self { settings, report, rows })
    }
}

/// Why a process is in no round: it was not permitted, or it has no memory of its own.
fn missing(report: &RoundReport, pid: Pid) -> anyhow::Error {
    use nodeward_engine::balance::News;
    let denied = report.news.iter().find_map(|news| match news {
        News::Denied { pid: found, need } if *found == pid => Some(need.clone()),
        _ => None,
    });
    match denied {
        Some(need) => Error::Denied { what: format!("balancing process {pid}"), need }.into(),
        None => Error::Gone(pid).into(),
    }
}
