//! `nodeward explain`: reasons, and the balancer's decision about a process.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_agent::Explained;
use nodeward_balancer::{BalanceSettings, Balancer, Notice, RoundReport};
use nodeward_machine::{Error, Machine};
use nodeward_model::{Pid, ProcessFilter, SkipReason};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Reason;

use crate::args::{ExplainArgs, ExplainSubject};
use crate::machines::SelectedMachine;
use crate::message::exit::Exit;
use crate::output::{explain, print};
use crate::results::ProcessExplanation;
use crate::settings::SettingsPaths;
use crate::verbs::by_agent;

/// Explains the named subjects, or all reasons.
pub fn run(args: &ExplainArgs, flag: Option<&Path>) -> Result<Exit> {
    let (mut skipped, mut homes, mut pids) = (Vec::new(), Vec::new(), Vec::new());
    for subject in &args.subjects {
        match *subject {
            ExplainSubject::Skip(reason) => skipped.push(reason),
            ExplainSubject::Home(reason) => homes.push(reason),
            ExplainSubject::Process(pid) => pids.push(pid),
        }
    }
    if args.subjects.is_empty() {
        (skipped, homes) = (SkipReason::ALL.to_vec(), Reason::ALL.to_vec());
    }
    let elsewhere = args.simulated.machine_args.machine.is_some() || args.by.agent.is_some();
    if elsewhere && pids.is_empty() {
        bail!("--machine and --agent are for the processes that are explained: name a PID");
    }
    let would = match &args.by.agent {
        Some(socket) => by_agent::explain(socket, &pids)?,
        None => processes(args, flag, &pids)?,
    };
    print(&match args.output.json {
        true => format!("{}\n", explain::json(&skipped, &homes, &would)),
        false => explain::text(&skipped, &homes, &would),
    })?;
    Ok(Exit::Done)
}

/// Examines each process in turn.
fn processes(args: &ExplainArgs, flag: Option<&Path>, pids: &[Pid]) -> Result<Vec<Explained>> {
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let mut settings =
        SettingsPaths::from_environment(flag).read_layer()?.balance_settings(false)?;
    let chosen = SelectedMachine::open(&args.simulated.machine_args, args.simulated.seed)?;
    settings.groups.extend(chosen.groups());
    let machine = chosen.into_shared();
    let one = |&pid: &Pid| Ok(explain::process(&explain_process(&machine, &settings, pid)?));
    pids.iter().map(one).collect()
}

/// Makes two rounds that act on nothing, and returns the decision about a process.
fn explain_process(
    machine: &Arc<dyn Machine>,
    settings: &BalanceSettings,
    pid: Pid,
) -> Result<ProcessExplanation> {
    machine.open_process(pid)?;
    // Unwanted processes are included: the time that nodes have for one depends on all others.
    let wanted = ProcessFilter::default();
    let live = MoveControl::default();
    let mut balancer = Balancer::new(Arc::clone(machine), &wanted, settings.clone(), None)?;
    balancer.sample_first(pid);
    // Loads are differences between two samples.
    let first = balancer.round(&live)?;
    machine.sleep_ns(settings.interval_ns);
    let report = balancer.round(&live)?;
    let row = match balancer.explain(pid) {
        Some(row) => Ok(row.clone()),
        None => Err(balancer.why_undecided(pid)),
    };
    match denied_remedy(&first, pid).or_else(|| denied_remedy(&report, pid)) {
        Some(need) if row.is_err() => {
            Err(Error::Denied { action: format!("balancing process {pid}"), remedy: need }.into())
        }
        _ => Ok(ProcessExplanation { pid, report: Arc::new(report), row }),
    }
}

/// Returns the permission that we lack to balance it, if any.
fn denied_remedy(report: &RoundReport, pid: Pid) -> Option<String> {
    report.news.iter().find_map(|news| match news {
        Notice::Denied { pids, need } if pids.contains(&pid) => Some(need.clone()),
        _ => None,
    })
}
