//! `nodeward balance`: one round that is shown, or rounds until it is told to stop.

mod agent;
mod daemon;
mod kernel_takeover;
mod once;
mod persistent_state;
mod request;
mod samples;
mod scheduler;
mod sd_notify;
mod signals;
mod textfile;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::Balancer;
use nodeward_mover::MoveControl;

use crate::args::BalanceArgs;
use crate::machines::SelectedMachine;
use crate::message::exit::Exit;
use crate::settings::{SchedulerChoice, SettingsPaths};
use crate::verbs::pcp::beside::BesideTuner;

use agent::BalancerAgent;
use daemon::Daemon;
use kernel_takeover::KernelTakeover;
use once::Once;
use persistent_state::PersistentState;
use request::{BalanceRequest, check, check_pids, report_absent};
use signals::SignalFlags;
use textfile::MetricsTextfile;

/// Default time to balance a simulated machine, in virtual nanoseconds.
const SIMULATED_NS: u64 = 10_000_000_000;

/// Balances.
pub fn run(args: &BalanceArgs, flag: Option<&Path>) -> Result<Exit> {
    let asked = BalanceRequest { args, places: SettingsPaths::from_environment(flag) };
    let (wanted, mut settings) = asked.read()?;
    let mut chosen = SelectedMachine::open(&args.machine_args, args.seed)?;
    settings.groups.extend(chosen.groups());
    // Before other threads begin: signals are held back from this one while that is done.
    let live = Arc::new(MoveControl::default());
    let signals = SignalFlags::install(&live)?;
    if let (Some(path), SelectedMachine::Local(machine)) = (&args.samples, &mut chosen) {
        samples::start_reader(path, machine.access_queue())?;
    }
    if let SelectedMachine::Local(machine) = &chosen {
        check_pids(machine, &wanted.pids)?;
        report_absent(&args.processes.name)?;
    }
    check(chosen.machine(), &wanted, &settings)?;
    let simulated = matches!(chosen, SelectedMachine::Simulated(_));
    // The state of a simulated machine is not saved, because the machine does not outlive this
    // command.
    let kept = (!simulated && !args.dry_run).then(|| PersistentState::open(&chosen)).transpose()?;
    let machine = chosen.into_shared();
    let PersistentState { saved, storage, takeover, lock: _lock } = kept.unwrap_or_default();
    let mut takeover = KernelTakeover::new(Arc::clone(&machine), takeover);
    takeover.apply(&settings)?;
    let mut balancer = Balancer::new(Arc::clone(&machine), &wanted, settings, saved)?;
    if let Some(storage) = storage {
        balancer.write_to(storage);
    }
    if (args.once || args.dry_run) && args.for_ns.is_none() {
        return Once::new(&asked, &live).run(&mut balancer);
    }
    let (threads_by, page_lists) = asked.read_kernel_choices()?;
    if !args.dry_run && threads_by == SchedulerChoice::Bpf {
        scheduler::use_bpf(&mut balancer, &*machine, simulated);
    }
    let (_tuner, agent, textfile) = match simulated || args.dry_run {
        true => (None, BalancerAgent::default(), None),
        false => {
            let tuner = BesideTuner::start(page_lists)?;
            let (settings, textfile) = asked.read_for_others()?;
            let agent = BalancerAgent::start(&settings, &machine, balancer.called_groups())?;
            let textfile =
                textfile.map(|path| MetricsTextfile::new(path, settings.metrics_processes));
            (tuner, agent, textfile)
        }
    };
    let for_ns = args.for_ns.or_else(|| simulated.then_some(SIMULATED_NS));
    Daemon::new(&asked, &machine, &signals, takeover, (agent, textfile), for_ns)
        .run(&mut balancer, &live)
}
