//! `nodeward group`: groups of threads and memory that the agent has, and proposals.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use nodeward_agent::client::{Client, ClientError};
use nodeward_agent::wire::WireGroup;
use nodeward_linux::Linux;
use nodeward_machine::{AccessSourceKind, Machine as _, Process};
use nodeward_model::{AccessSample, Escape as _, MappingKind, MemorySelector, Pid};

use crate::args::{
    GroupAddArgs, GroupArgs, GroupCreateArgs, GroupListArgs, GroupProposeArgs, GroupVerb,
};
use crate::machines::SelectedMachine;
use crate::machines::hot::ObservedSource;
use crate::machines::observation::WatchProgress;
use crate::message::exit::Exit;
use crate::output::{group, print};
use crate::progress::run_with_progress;
use crate::results::touched_memory::TouchSamples;
use crate::results::{ObservedTouches, ProposedGroups};
use crate::verbs::process_selection::select_processes;

/// Carries out its verb.
pub fn run(args: &GroupArgs) -> Result<Exit> {
    match &args.verb {
        GroupVerb::List(args) => list(args)?,
        GroupVerb::Create(args) => create(args)?,
        GroupVerb::Add(args) => add(args)?,
        GroupVerb::SetHome(args) => {
            let (mut client, number) = find(&args.by.agent, &args.group)?;
            client.set_group_home(number, &args.home.resolve()?)?;
        }
        GroupVerb::Delete(args) => {
            let (mut client, number) = find(&args.by.agent, &args.group)?;
            client.delete_group(number)?;
        }
        GroupVerb::Propose(args) => return propose(args),
    }
    Ok(Exit::Done)
}

fn list(args: &GroupListArgs) -> Result<()> {
    let groups = Client::connect(&args.by.agent)?.groups()?;
    let page_bytes = Linux::open().page_bytes();
    print(&match args.output.json {
        true => format!("{}\n", group::json(&groups, page_bytes)),
        false => group::text(&groups, page_bytes),
    })
}

fn create(args: &GroupCreateArgs) -> Result<()> {
    let number =
        Client::connect(&args.by.agent)?.create_group(&args.name, &args.home.resolve()?)?;
    print(&match args.output.json {
        true => format!("{}\n", group::created_json(number, &args.name)),
        false => format!("{number}\n"),
    })
}

/// Those that were found by a name or a control group may have ended since: they are left out,
/// unless all have.
fn add(args: &GroupAddArgs) -> Result<()> {
    ensure!(
        args.thread.is_empty() || args.pids.len() == 1,
        "--thread is about one process, and {} are named; add the others without it",
        args.pids.len()
    );
    let (mut client, number) = find(&args.by.agent, &args.group)?;
    let (mut ended, mut added) = (None, 0);
    for pid in select_processes(&args.name, &args.cgroup, args.pids.clone())? {
        match add_process(&mut client, number, pid, args) {
            Ok(()) => added += 1,
            Err(error) if error.missing_process().is_some() && !args.pids.contains(&pid) => {
                ended = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match ended {
        Some(error) if added == 0 => Err(error.into()),
        _ => Ok(()),
    }
}

/// Memory first: if that is refused, no thread is placed without it.
fn add_process(
    client: &mut Client,
    number: u32,
    pid: Pid,
    args: &GroupAddArgs,
) -> Result<(), ClientError> {
    let is_whole = args.thread.is_empty() && args.memory.is_empty();
    let memory = if is_whole { all_memory() } else { args.memory.clone() };
    if !memory.is_empty() {
        client.add_memory(number, pid, &memory)?;
    }
    if is_whole {
        client.add_threads(number, pid, None)?;
    } else if !args.thread.is_empty() {
        client.add_threads(number, pid, Some(&args.thread))?;
    }
    Ok(())
}

/// All memory of a process that is not a file's.
fn all_memory() -> Vec<MemorySelector> {
    let kinds = MappingKind::ALL.into_iter().filter(|kind| *kind != MappingKind::File);
    kinds.map(MemorySelector::Kind).collect()
}

/// Connects, and finds a group by its number or its name.
fn find(socket: &std::path::Path, wanted: &str) -> Result<(Client, u32)> {
    let mut client = Client::connect(socket)?;
    if let Ok(number) = wanted.parse() {
        return Ok((client, number));
    }
    let named = |group: &WireGroup| group.group.filter(|_| group.name == wanted);
    let found: Vec<u32> = client.groups()?.groups.iter().filter_map(named).collect();
    match found[..] {
        [number] => Ok((client, number)),
        [] => bail!(
            "no group made by calls is called '{}'; nodeward group list shows yours",
            wanted.escaped()
        ),
        _ => {
            let numbers = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            bail!("groups {numbers} are called '{}': give the number", wanted.escaped())
        }
    }
}

/// What was seen until Ctrl-C is told.
fn propose(args: &GroupProposeArgs) -> Result<Exit> {
    let machine = SelectedMachine::open(&args.machine_args, None)?;
    let process = machine.machine().open_process(args.pid)?;
    let (identity, traits) = (process.identity()?, process.traits()?);
    let mut proposed = ProposedGroups::of(args.pid, &identity.name, &traits);
    let mut exit = Exit::Done;
    if let Some(ns) = args.for_ns {
        let of_threads = proposed.of_threads(&traits);
        // Others may not know which thread it was.
        let registers = Some(AccessSourceKind::Registers);
        let source = ObservedSource::open(machine.another(), registers, ns)
            .or_else(|_| ObservedSource::open(machine.another(), None, ns))?;
        let watch =
            GroupWatch { source, process: &*process, of_threads, groups: proposed.groups.len() };
        let live = WatchProgress::new(ns);
        let observed = run_with_progress(&live, args.progress.mode(), || watch.observe(&live))??;
        proposed.touches = Some(observed);
        exit = if live.is_stopped() { Exit::Interrupted } else { Exit::Done };
    }
    print(&match args.output.json {
        true => format!("{}\n", group::proposed_json(&proposed)),
        false => group::proposed_text(&proposed),
    })?;
    Ok(exit)
}

/// Observes which groups of threads touch which memory.
struct GroupWatch<'a> {
    source: ObservedSource,
    process: &'a dyn Process,
    of_threads: BTreeMap<u32, usize>,
    groups: usize,
}

impl GroupWatch<'_> {
    fn observe(mut self, live: &WatchProgress) -> Result<ObservedTouches> {
        let mut samples = TouchSamples::default();
        let mut see = |sample: &AccessSample| {
            let group = sample.tid.and_then(|tid| self.of_threads.get(&tid));
            group.into_iter().for_each(|group| samples.add(*group, sample.access.address));
        };
        let look = |watched_ns| {
            live.update(watched_ns, 1);
            live.is_stopped()
        };
        self.source.watch(self.process, &look, &mut |_, sample| see(sample))?;
        let (source, blind_to) = (self.source.kind(), self.source.blind_to());
        Ok(ObservedTouches { source, blind_to, touched: samples.by_group(self.groups) })
    }
}
