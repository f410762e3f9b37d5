//! `nodeward move`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use nodeward_engine::{Live, MoveReport, Order, Selection, migrate, plan};
use nodeward_linux::{Linux, select};
use nodeward_machine::{Error, Life, Machine, Process};
use nodeward_model::{MappingKind, Pid};

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::nodes;
use crate::output::moves;
use crate::progress;
use crate::settings::MoveSettings;

/// Moves, or says what a move would do.
pub fn run(args: &MoveArgs, settings: &MoveSettings) -> Result<Exit> {
    let (pids, from, to) = words(args)?;
    let machine = Linux::open();
    let topology = machine.topology()?;
    let pairs = nodes::pairs(from, to, &topology)?;
    let processes = hold(&machine, &find(args, pids)?)?;
    let selection = Selection { kinds: kinds(args), ranges: args.range.clone() };
    let orders: Arc<[Order]> = [Order { pairs, pages: None }].into();
    let orders = vec![orders; processes.len()];
    let request = settings.request(&machine, &topology, orders, selection)?;
    let live = Live::default();
    if args.dry_run {
        let report = plan(&machine, &processes, &request, &live)?;
        moves::print_plan(&report, machine.page_bytes(), args.output.json)?;
        return Ok(Exit::Done);
    }
    let work = || migrate(&machine, &processes, &request, &live);
    let report = progress::watch(&live, args.progress(), work)??;
    moves::print_report(&report, machine.page_bytes(), args.output.json)?;
    Ok(exit(&report))
}

/// The words of the command line: process ids, FROM, TO.
fn words(args: &MoveArgs) -> Result<(Vec<Pid>, &str, &str)> {
    let [pids @ .., from, to] = &args.words[..] else { bail!("FROM and TO are missing") };
    let by_other_means = !args.name.is_empty() || !args.cgroup.is_empty();
    if pids.is_empty() && !by_other_means {
        bail!("no process is named: give a PID, --name or --cgroup before '{from} {to}'");
    }
    let pids = pids.iter().map(|pid| Ok(pid.parse()?)).collect::<Result<_>>()?;
    Ok((pids, from, to))
}

/// Every process that is meant, each once, in the order in which they were named.
fn find(args: &MoveArgs, mut pids: Vec<Pid>) -> Result<Vec<Pid>> {
    let root = Path::new("/");
    for name in &args.name {
        let found = select::by_name(root, name)?;
        if found.is_empty() {
            bail!("no process is called '{name}' (names are those of ps -e, at most 15 bytes)");
        }
        pids.extend(found);
    }
    for group in &args.cgroup {
        let found = select::by_cgroup(root, group).map_err(|error| no_group(group, error))?;
        if found.is_empty() {
            bail!("no process is in the control group '{}'", group.display());
        }
        pids.extend(found);
    }
    let mut seen = BTreeSet::new();
    pids.retain(|pid| seen.insert(*pid));
    Ok(pids)
}

/// A group that is not there was mistyped; one that cannot be read is the machine's matter.
fn no_group(group: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            anyhow!("'{}' is not a control group here", group.display())
        }
        error => error.into(),
    }
}

fn hold(machine: &Linux, pids: &[Pid]) -> Result<Vec<Arc<dyn Process>>> {
    pids.iter().map(|&pid| Ok(machine.hold(pid)?)).collect()
}

fn kinds(args: &MoveArgs) -> BTreeSet<MappingKind> {
    if !args.only.is_empty() {
        return args.only.iter().copied().collect();
    }
    MappingKind::ALL.into_iter().filter(|kind| !args.exclude.contains(kind)).collect()
}

fn exit(report: &MoveReport) -> Exit {
    let account = report.account();
    if report.interrupted {
        Exit::Interrupted
    } else if report.processes.iter().all(|process| process.life != Life::Running) {
        Exit::Gone
    } else if account.skipped_total() == 0 {
        Exit::Done
    } else if account.moved == 0 && account.already_there == 0 {
        Exit::NothingDone
    } else {
        Exit::SomeSkipped
    }
}
