//! Verbs with `--agent`: the agent does it, and the result is printed as without it.

use std::path::Path;

use anyhow::{Result, bail};
use nodeward_agent::Explained;
use nodeward_agent::client::{Client, ClientError};
use nodeward_agent::wire::{AddressRange, Order, WireReport, WireShare, WireSpread};
use nodeward_linux::Linux;
use nodeward_model::{MappingKind, Pid};
use nodeward_mover::placement::FoundPlacement;
use nodeward_mover::{Jobs, LedgerReport, MoveControl, MoveDeadline, MoveReport, PlanReport};
use nodeward_records::ledger::OperationId;

use crate::args::{DeadlineArgs, MoveArgs, MoveRunArgs, ShowArgs, SkipArgs, SpreadArgs, UndoArgs};
use crate::machines::{SelectedMachine, node_pairs};
use crate::message::exit::Exit;
use crate::output;
use crate::output::moves::{self, MoveOutput, SelectionReport};
use crate::output::placement::RestoreReport;
use crate::progress::{AgentProgress, ProgressMode, run_with_progress};
use crate::results::ShownMemory;
use crate::settings::MoveSettings;
use crate::verbs::move_operands::{Operands, kinds};
use crate::verbs::move_task;
use crate::verbs::process_selection::select_processes;
use crate::verbs::spread_operands::SpreadOperands;

/// Moves, or reports what a move would do.
pub fn move_processes(args: &MoveArgs, settings: &MoveSettings, socket: &Path) -> Result<Exit> {
    let (order, named) = order(args, settings)?;
    carry_out_or_plan(order, &named, &AgentRun::new(&args.run, socket)?)
}

/// Spreads memory, or reports what that would do.
pub fn spread(args: &SpreadArgs, settings: &MoveSettings, socket: &Path) -> Result<Exit> {
    let chosen = SelectedMachine::Local(Linux::open());
    let topology = chosen.machine().topology()?;
    let SpreadOperands { pids: named, shares, kinds } =
        SpreadOperands::parse(args, &chosen, &topology)?;
    let nodes = shares.into_iter().map(|(node, weight)| WireShare { node, weight }).collect();
    let pids = select_processes(&args.name, &args.cgroup, named.clone())?;
    let order = Order {
        pids: Some(pids),
        spread: Some(WireSpread { nodes, block: Some(args.block) }),
        kinds: Some(kinds.iter().map(|kind| kind.name().to_owned()).collect()),
        ..limits(settings, args.skip)
    };
    carry_out_or_plan(order, &named, &AgentRun::new(&args.run, socket)?)
}

/// Takes a move of the agent back, or reports what that would do.
pub fn undo(args: &UndoArgs, settings: &MoveSettings, socket: &Path) -> Result<Exit> {
    let order = Order { undo: Some(args.id.number()), ..limits(settings, args.skip) };
    let run = AgentRun {
        socket,
        dry_run: args.dry_run,
        until: args.until,
        progress: args.progress.mode(),
        json: args.output.json,
        restored: None,
    };
    carry_out_or_plan(order, &[], &run)
}

/// How an order is carried out.
pub(super) struct AgentRun<'a> {
    socket: &'a Path,
    dry_run: bool,
    until: DeadlineArgs,
    progress: ProgressMode,
    json: bool,
    restored: Option<&'a RestoreEnd<'a>>,
}

/// Restores what of a placement is not memory, unless the move was stopped, and reports all of it.
type RestoreEnd<'a> = dyn Fn(FoundPlacement, bool) -> Result<RestoreReport> + 'a;

impl<'a> AgentRun<'a> {
    pub fn new(args: &MoveRunArgs, socket: &'a Path) -> Result<Self> {
        if args.no_ledger {
            bail!("the agent keeps a ledger of all that it moves; leave out --no-ledger");
        }
        let (progress, json) = (args.progress.mode(), args.output.json);
        let (dry_run, until) = (args.dry_run, args.until);
        Ok(Self { socket, dry_run, until, progress, json, restored: None })
    }

    /// The same for a placement that is restored.
    pub fn of_placement(self, end: &'a RestoreEnd<'a>) -> Self {
        Self { restored: Some(end), ..self }
    }

    fn end(
        &self,
        found: Option<FoundPlacement>,
        is_stopped: bool,
    ) -> Result<Option<RestoreReport>> {
        self.restored.zip(found).map(|(end, found)| end(found, is_stopped)).transpose()
    }
}

/// Carries an order out, or reports what it would do. `named` are the processes that must be there.
pub(super) fn carry_out_or_plan(
    mut order: Order,
    named: &[Pid],
    run: &AgentRun<'_>,
) -> Result<Exit> {
    let mut client = Client::connect(run.socket)?;
    if run.dry_run {
        let plan = without_ended(&mut order, named, |order| client.plan(order))?;
        tell_of_gaps(&order, plan.lacks_moves);
        let (page_bytes, placement) = (plan.page_bytes, run.end(plan.found.clone(), false)?);
        let plan = PlanReport::from(plan);
        moves::print_plan(&plan, restored(placement.as_ref()), None, page_bytes, run.json)?;
        return Ok(Exit::Done);
    }
    let deadline = run.until.deadline.map(MoveDeadline::in_real_time);
    let live = AgentProgress::new(MoveControl::until(deadline));
    let work = || {
        let number = without_ended(&mut order, named, |order| client.start(order))?;
        follow(client, number, &live)
    };
    let report = run_with_progress(&live, run.progress, work)??;
    tell_of_gaps(&order, report.lacks_moves);
    let ledger = report.ledger.and_then(ledger);
    let (page_bytes, found) = (report.page_bytes, report.found.clone());
    let stall_ns = order.stall;
    let report = MoveReport { stall_ns, ..with_reason(report.into(), &live) };
    let placement = run.end(found, report.stopped.is_some())?;
    let told = MoveOutput {
        report: &report,
        page_bytes,
        selection: restored(placement.as_ref()),
        ledger: ledger.as_ref(),
        by_agent: true,
        shared_memory: None,
        collapse: None,
    };
    moves::print_report(&told, run.json)?;
    Ok(move_task::exit(&report, None, &move_task::Unmoved::by(placement.as_ref(), 0)))
}

fn restored(placement: Option<&RestoreReport>) -> SelectionReport<'_> {
    SelectionReport { placement, ..SelectionReport::default() }
}

/// Asks without those processes that have ended since a name or a group told them, unless all have.
fn without_ended<T>(
    order: &mut Order,
    named: &[Pid],
    mut ask: impl FnMut(&Order) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    loop {
        let answer = ask(order);
        let missing = answer.as_ref().err().and_then(ClientError::missing_process);
        let Some(ended) = missing else { return answer };
        let Some(pids) = order.pids.as_mut().filter(|pids| pids.len() > 1) else { return answer };
        let before = pids.len();
        pids.retain(|pid| pid.number() != ended || named.contains(pid));
        if pids.len() == before {
            return answer;
        }
    }
}

fn tell_of_gaps(order: &Order, lacks_moves: bool) {
    if let (Some(number), true) = (order.undo, lacks_moves) {
        say!("nodeward: operation {number} moved more than its ledger holds; the rest stays");
    }
}

/// Shows where the memory of processes is.
pub fn show(args: &ShowArgs, socket: &Path) -> Result<Exit> {
    let mut client = Client::connect(socket)?;
    let samples = args.samples.unwrap_or(0);
    let mut look = |&pid: &Pid| -> Result<ShownMemory> {
        let (residency, segments) = client.residency(pid, args.exact, samples, args.seed)?;
        Ok(ShownMemory { residency, segments: segments.into_iter().map(Into::into).collect() })
    };
    let found = args.pids.iter().map(&mut look).collect::<Result<Vec<_>>>()?;
    output::print(&match args.output.json {
        true => format!("{}\n", output::residency::json(&found)),
        false => output::residency::text(&found),
    })?;
    Ok(Exit::Done)
}

/// Returns what the balancer decided about processes.
pub fn explain(socket: &Path, pids: &[Pid]) -> Result<Vec<Explained>> {
    let mut client = Client::connect(socket)?;
    let mut one = |&pid: &Pid| {
        let (document, text) = client.explain(pid)?;
        Ok(Explained { document, text })
    };
    pids.iter().map(&mut one).collect()
}

/// Returns an order with the limits of these settings, without what stays, and nothing to do.
pub(super) fn limits(settings: &MoveSettings, skip: SkipArgs) -> Order {
    Order {
        jobs: match settings.jobs {
            Jobs::Auto => None,
            Jobs::Fixed(jobs) => Some(jobs),
        },
        rate: settings.rate_bytes_per_s,
        stall: settings.stall_ns,
        skip_shared_above: skip.skip_shared_above,
        skip_pinned: skip.skip_pinned.then_some(true),
        ..Order::default()
    }
}

/// Returns the order, and the processes that were named by pid. Nodes are those that this process
/// may name: the agent knows nothing of our cpuset.
fn order(args: &MoveArgs, settings: &MoveSettings) -> Result<(Order, Vec<Pid>)> {
    let Operands { pids: named, from, to } = Operands::parse(args)?;
    let chosen = SelectedMachine::Local(Linux::open());
    let topology = chosen.machine().topology()?;
    let pairs = node_pairs::parse_pairs(from, to, &topology, &chosen.node_names(&topology)?)?;
    let kinds = kinds(args);
    let all = kinds.len() == MappingKind::ALL.len();
    let names = || kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let range = |range: &nodeward_model::Range| AddressRange { start: range.start, end: range.end };
    let order = Order {
        pids: Some(select_processes(&args.name, &args.cgroup, named.clone())?),
        pairs: Order::between(&pairs).pairs,
        kinds: (!all).then(names),
        ranges: (!args.range.is_empty()).then(|| args.range.iter().map(range).collect()),
        ..limits(settings, args.skip)
    };
    Ok((order, named))
}

/// Begins a move, and follows it to its end; returns its account.
pub(super) fn carry_out(
    mut client: Client,
    order: &Order,
    live: &AgentProgress,
) -> Result<WireReport, ClientError> {
    let number = client.start(order)?;
    follow(client, number, live)
}

/// Follows a move to its end, and cancels it if it is to stop; returns its account.
fn follow(
    mut client: Client,
    number: u64,
    live: &AgentProgress,
) -> Result<WireReport, ClientError> {
    let mut watch = client.watch(number)?;
    let mut is_cancelled = false;
    while live.update(watch.wait_for_next()?) {
        if live.is_stopped() && !is_cancelled {
            client.cancel(number)?;
            is_cancelled = true;
        }
    }
    client.account(number)
}

/// Puts in why we ended the move. The agent knows that somebody did.
pub(super) fn with_reason(report: MoveReport, live: &AgentProgress) -> MoveReport {
    let stopped = report.stopped.map(|told| live.stop_reason().unwrap_or(told));
    MoveReport { stopped, ..report }
}

/// Returns what is told of a ledger of the agent.
pub(super) fn ledger(number: u64) -> Option<LedgerReport> {
    let id = OperationId::of_number(number)?;
    Some(LedgerReport { id, writing_ns: 0, error: None })
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    use nodeward_agent::limits::{LOOK_NS_MAX, MoveLimits};
    use nodeward_agent::wire::WirePair;
    use nodeward_agent::{Agent, AgentOptions, Journal};
    use nodeward_balancer::{CalledGroups, SharedGroups};
    use nodeward_machine::Machine;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page};
    use serde_json::Value;

    use super::*;
    use crate::progress::{ProgressSource as _, StoppableWork as _};

    const LIMITS: MoveLimits =
        MoveLimits { moves_of_user: 1, rate_of_user: None, look_ns: LOOK_NS_MAX };

    fn order() -> Order {
        let pairs = vec![WirePair { from: NodeId(0), to: NodeId(1) }];
        Order { pairs, ..Order::default() }
    }

    /// Does something with an agent of a machine on which this process has 3000 pages on node 0.
    pub fn with_agent(act: impl FnOnce(&Path, &Agent)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let machine = FakeMachine::new(true);
        let pages = vec![Page::on(NodeId(0)); 3000];
        machine.spawn(Pid::of_this_process(), FakeProcess::with_pages(&pages));
        let options = AgentOptions {
            limits: LIMITS,
            explainer: |_, _, _, _| unreachable!("nothing is explained"),
            journal: Journal {
                begin: |_| None,
                end: |_, _| unreachable!("none was begun"),
                read: |_| None,
            },
            metrics_processes: 0,
        };
        let listener = UnixListener::bind(&path).unwrap();
        let machine: Arc<dyn Machine> = Arc::new(machine);
        let groups = SharedGroups::new(Arc::clone(&machine), CalledGroups::default());
        let agent = Agent::start(listener, machine, Arc::new(groups), options).unwrap();
        act(&path, &agent);
    }

    /// Goal: the account of the agent is what a move without it would have: 3000 pages, each once,
    /// in the words of any move; the progress ends with all of them.
    #[test]
    fn a_move_is_told_as_without_the_agent() {
        with_agent(|path, _| {
            let live = AgentProgress::default();
            let client = Client::connect(path).unwrap();
            let report = MoveReport::from(carry_out(client, &order(), &live).unwrap());
            assert_eq!(report.account().moved, 3000);
            assert_eq!(move_task::exit(&report, None, &move_task::Unmoved::default()), Exit::Done);
            assert_eq!(live.done_of_total(), (3000 * 4096, 3000 * 4096));
            let told = MoveOutput {
                report: &report,
                page_bytes: 4096,
                selection: SelectionReport::default(),
                ledger: None,
                by_agent: true,
                shared_memory: None,
                collapse: None,
            };
            let json = moves::report_json(&told);
            assert_eq!(json["processes"][0]["after_pages"]["1"], 3000);
            assert_eq!(json["account"]["moved"], 3000);
        });
    }

    /// Goal: after Ctrl-C the account is told all the same: of 3000 pages each is moved, or skipped
    /// because of it. (How far the move comes depends on the machine.)
    #[test]
    fn an_interrupted_move_is_accounted_for() {
        with_agent(|path, _| {
            let live = AgentProgress::default();
            live.stop();
            let client = Client::connect(path).unwrap();
            let report = MoveReport::from(carry_out(client, &order(), &live).unwrap());
            let unexamined = report.processes[0].unexamined_bytes / 4096;
            assert_eq!(report.account().selected() + unexamined, 3000);
        });
    }

    /// Goal: of processes that a name or a group told, those that have ended since are left out;
    /// one that was named by its pid is missed, and so is the last one.
    #[test]
    fn who_has_ended_is_left_out() {
        with_agent(|path, _| {
            let mut client = Client::connect(path).unwrap();
            let (us, gone) = (Pid::of_this_process(), Pid::new(4_194_303).unwrap());
            let mut plan = |pids: &[Pid], named: &[Pid]| {
                let mut order = Order { pids: Some(pids.to_vec()), ..order() };
                let plan = without_ended(&mut order, named, |order| client.plan(order)).ok()?;
                Some(plan.processes.iter().map(|process| process.pid).collect::<Vec<_>>())
            };
            assert_eq!(plan(&[gone, us], &[]), Some(vec![us]));
            assert_eq!(plan(&[gone, us], &[us]), Some(vec![us]));
            assert_eq!(plan(&[gone, us], &[gone]), None);
            assert_eq!(plan(&[gone], &[]), None);
        });
    }

    /// Goal: threads of a placement are brought only after the agent has moved the memory: one that
    /// it refuses leaves them where they are.
    #[test]
    fn a_refused_placement_brings_no_threads() {
        with_agent(|path, _| {
            let run = AgentRun {
                socket: path,
                dry_run: false,
                until: DeadlineArgs { deadline: None },
                progress: ProgressMode::Never,
                json: true,
                restored: Some(&|_, _| unreachable!("nothing has moved")),
            };
            let order = Order { placement: Some(Value::Null), ..Order::default() };
            let refused = carry_out_or_plan(order, &[], &run).unwrap_err().to_string();
            assert!(refused.contains("placement"), "{refused}");
        });
    }

    /// Goal: a plan comes over whole: one flow of 3000 pages, of one page each.
    #[test]
    fn a_plan_is_told_as_without_the_agent() {
        with_agent(|path, _| {
            let plan = Client::connect(path).unwrap().plan(&order()).unwrap();
            let plan = PlanReport::from(plan);
            let (pid, planned) = &plan.processes[0];
            assert_eq!(*pid, Pid::of_this_process());
            assert_eq!(planned.moves, [((NodeId(0), NodeId(1)), 3000)].into());
            assert_eq!(planned.folios, [(1, 3000)].into());
        });
    }
}
