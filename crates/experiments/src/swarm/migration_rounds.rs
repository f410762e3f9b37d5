//! Rounds on a simulated machine: observe where memory is, decide what to move, let the mover
//! migrate it, and verify the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Liveness, Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, Pid, SkipReason};
use nodeward_mover::{MoveOrder, MoveReport, MoveRequest, Selection, migrate};
use nodeward_policy::workers;
use nodeward_scenario::{Scenario, Workload, WorkloadKind};
use nodeward_sim::{PageView, ProcessView, World};

use crate::swarm::check::account::{self, PagesAroundMove};
use crate::swarm::check::liveness::{MisplacedShare, WantedProcess};
use crate::swarm::check::{CheckFinding, Checker, CheckerResult, budgets};
use crate::swarm::checked_machine::CheckedMachine;
use crate::swarm::event_counts::EventCounts;
use crate::swarm::generator::RoundPolicy;

/// A huge page, in bytes.
const HUGE_BYTES: u64 = 2 << 20;

/// Rounds on one machine.
pub struct MigrationRounds<'a> {
    machine: &'a CheckedMachine,
    policy: &'a RoundPolicy,
}

/// A process that has to move.
struct WantedMove {
    process: Arc<dyn Process>,
    to: NodeId,
    order: Arc<[MoveOrder]>,
}

/// Counters of what others do to pages. If they do not change, nothing else touched the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BackgroundActivity {
    faulted: u64,
    freed: u64,
    /// Started faults that move pages, and pages that they moved.
    lazy_faults_and_pages: [u64; 2],
    copied: u64,
    killed: u64,
    actions: usize,
    actions_end: bool,
}

impl BackgroundActivity {
    fn of(world: &World) -> Self {
        let counters = &world.counters;
        Self {
            faulted: counters.faulted_pages,
            freed: counters.freed_pages,
            lazy_faults_and_pages: [counters.lazy_faults, counters.lazy_pages],
            copied: counters.copied_on_write,
            killed: counters.oom_kills,
            actions: world.moves.len() + world.hotplugs.len(),
            actions_end: has_settled(world),
        }
    }
}

impl<'a> MigrationRounds<'a> {
    /// Creates rounds on a machine, with the parameters of a case.
    pub fn new(machine: &'a CheckedMachine, policy: &'a RoundPolicy) -> Self {
        Self { machine, policy }
    }

    /// Runs one round. Returns by process the number of pages that may stay where they are.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn round(&self, happened: &mut EventCounts) -> Result<BTreeMap<Pid, u64>, CheckFinding> {
        let mut excused = BTreeMap::new();
        happened.add("rounds", 1);
        self.read_accesses(happened)?;
        let pids: Vec<_> = self.machine.sim.processes().iter().map(|each| each.pid).collect();
        let size = if self.policy.together { pids.len().max(1) } else { 1 };
        for pids in pids.chunks(size) {
            let wishes = self.observe(pids);
            if wishes.is_empty() {
                continue;
            }
            let (others, migrated) = self.machine.sim.inspect(background_activity);
            let (before, told_truth) = (self.resident_pages(&wishes), self.locations_are_current());
            let Some(report) = self.migrate(&wishes)? else { continue };
            let (others_then, migrated_then) = self.machine.sim.inspect(background_activity);
            self.machine.check()?;
            self.verify_budgets(&report)?;
            for process in &report.processes {
                let reasons = [SkipReason::StallBudget, SkipReason::Shared];
                let stay = reasons.map(|reason| process.account.skipped_for(reason)).iter().sum();
                excused.insert(process.pid, stay);
            }
            count_moves(&report, happened);
            let told_truth = told_truth && self.locations_are_current();
            let all_in_sight = !before.iter().flatten().any(|page| page.is_in_flight);
            // Once the event limit has stopped the machine, waits end in the middle of calls.
            let is_alone = others == others_then && others.actions_end && !self.machine.is_over();
            // What several processes map counts for each of them.
            let is_alone =
                is_alone && !self.machine.sim.inspect(|world| has_segments(world.scenario()));
            if is_alone && told_truth && all_in_sight {
                happened.add("moves checked page by page", 1);
                let moved = migrated_then - migrated;
                self.machine.record_result(self.verify(&wishes, before, &report, moved))?;
            }
        }
        Ok(excused)
    }

    /// Reads the access counters of all nodes.
    fn read_accesses(&self, happened: &mut EventCounts) -> Result<(), CheckFinding> {
        let seen = self.machine.sim.take_accesses().unwrap_or_default();
        let lines = seen.iter().map(|(_, access)| access.count).sum();
        happened.add("lines that access counters told of", lines);
        self.machine.check_counted_lines(lines)
    }

    /// Returns whether reported locations are current.
    fn locations_are_current(&self) -> bool {
        let now_ns = self.machine.now_ns();
        self.machine.sim.inspect(|world| {
            let faults = world.scenario().faults.as_ref();
            faults.is_none_or(|faults| {
                faults.stale_residency_milli == 0 || !faults.is_active_at(now_ns)
            })
        })
    }

    /// Returns those of some processes that have pages on unwanted nodes.
    fn observe(&self, pids: &[Pid]) -> Vec<WantedMove> {
        let processes = self.machine.sim.processes();
        let named = processes.iter().filter(|process| pids.contains(&process.pid));
        named.filter_map(|process| self.wanted_move(process)).collect()
    }

    /// Returns the move that a process needs, if any.
    fn wanted_move(&self, view: &ProcessView) -> Option<WantedMove> {
        let to = self.policy.wanted_node(view.pid.number());
        let nodes: Nodemask = view.pages.keys().copied().filter(|&node| node != to).collect();
        if nodes.is_empty() {
            return None;
        }
        let pairs = NodePairs::all_to(&nodes, to);
        let process = self.machine.open_process(view.pid).ok()?;
        Some(WantedMove { process, to, order: [MoveOrder { pairs, pages: None }].into() })
    }

    /// Lets the mover move. `None` if all processes to move are gone.
    fn migrate(&self, wishes: &[WantedMove]) -> Result<Option<MoveReport>, CheckFinding> {
        let machine = self.machine;
        let to: Nodemask = wishes.iter().map(|wish| wish.to).collect();
        let (topology, usable) = (machine.topology(), machine.usable_cpus());
        let cpus = topology.and_then(|topology| Ok(workers::worker_cpus(&topology, &to, &usable?)));
        let processes: Vec<_> = wishes.iter().map(|wish| Arc::clone(&wish.process)).collect();
        let report = cpus.and_then(|cpus| {
            let request = MoveRequest {
                orders: wishes.iter().map(|wish| Arc::clone(&wish.order)).collect(),
                selection: Selection::default(),
                jobs: self.policy.jobs,
                cpus,
                rate_bytes_per_s: self.policy.rate_bytes_per_s,
                stall_ns: self.policy.stall_ns,
                split_huge: false,
            };
            migrate(machine, &processes, &request, machine.live(), None)
        });
        match report {
            Ok(report) => Ok(Some(report)),
            Err(error) if error.is_gone() => machine.check().map(|()| None),
            Err(error) => {
                let what = format!("the mover moved nothing: {error}");
                machine.record_result(Err((Checker::Account, what))).map(|()| None)
            }
        }
    }

    fn verify_budgets(&self, report: &MoveReport) -> Result<(), CheckFinding> {
        let (machine, policy) = (self.machine, self.policy);
        let calls = machine.take_calls();
        if let Some(rate) = policy.rate_bytes_per_s {
            machine.record_result(budgets::check_rate(&calls, rate, machine.page_bytes()))?;
        }
        if let Some(stall_ns) = policy.stall_ns.filter(|_| report.workers == 1) {
            machine.record_result(budgets::check_stalls(&calls, stall_ns))?;
        }
        Ok(())
    }

    fn resident_pages(&self, wishes: &[WantedMove]) -> Vec<Vec<PageView>> {
        let of = |wish: &WantedMove| {
            self.machine.sim.inspect(|world| world.pages_of(wish.process.pid()))
        };
        wishes.iter().map(of).collect()
    }

    /// Checks the report of a move against the pages.
    fn verify(
        &self,
        wishes: &[WantedMove],
        before: Vec<Vec<PageView>>,
        report: &MoveReport,
        migrated: u64,
    ) -> CheckerResult {
        let pages = before.into_iter().zip(self.resident_pages(wishes));
        for ((wish, process), (before, after)) in wishes.iter().zip(&report.processes).zip(pages) {
            if process.life == Liveness::Running {
                account::check_process_account(
                    &PagesAroundMove { before, after, to: wish.to },
                    process,
                )?;
            }
        }
        // The fate of pages in a call whose process ended meanwhile is unknown.
        let all_run = report.processes.iter().all(|process| process.life == Liveness::Running);
        if all_run {
            account::check_machine_account(migrated, report.account().moved)
        } else {
            Ok(())
        }
    }

    /// Returns the share of memory that is misplaced although its wanted node has room, of
    /// processes that keep their memory.
    pub fn misplaced_share(&self, excused: &BTreeMap<Pid, u64>) -> MisplacedShare {
        self.machine.sim.inspect(|world| {
            let census = world.census();
            let keeps = |name: &str| {
                let workloads = world.scenario().workloads.iter();
                workloads.filter(|workload| workload.name == name).any(|workload| {
                    !matches!(
                        workload.kind,
                        WorkloadKind::PageFault
                            | WorkloadKind::Compile { .. }
                            | WorkloadKind::PingPong { .. }
                            | WorkloadKind::Stream { .. }
                    )
                })
            };
            let ids: Vec<_> = census.nodes.iter().map(|node| node.node).collect();
            let steady = census.processes.iter().filter(|each| !each.ended && keeps(&each.name));
            let placed = steady.map(|process| WantedProcess {
                wanted: self.policy.wanted_node(process.pid.number()),
                pages: ids.iter().copied().zip(process.pages.iter().copied()).collect(),
                exempt_pages: excused.get(&process.pid).copied().unwrap_or(0),
            });
            let free = census.nodes.iter().map(|node| (node.node, node.free)).collect();
            let page = world.scenario().machine.params.page_bytes;
            let folio = |each: &Workload| if each.huge { HUGE_BYTES } else { each.folio_bytes };
            let largest = world.scenario().workloads.iter().map(folio).max().unwrap_or(0);
            MisplacedShare::of(&placed.collect::<Vec<_>>(), &free, (largest / page).max(1))
        })
    }
}

/// Returns whether processes of a scenario map memory that others map, too.
pub fn has_segments(scenario: &Scenario) -> bool {
    scenario.workloads.iter().any(|each| matches!(each.kind, WorkloadKind::Database { .. }))
}

/// Returns whether all actions of the scenario have ended.
pub fn has_settled(world: &World) -> bool {
    let moves = world.moves.iter().map(|record| record.ended_ns);
    moves.chain(world.hotplugs.iter().map(|record| record.ended_ns)).all(|end| end.is_some())
}

fn background_activity(world: &World) -> (BackgroundActivity, u64) {
    (BackgroundActivity::of(world), world.counters.migrated_pages)
}

/// Counts the result of a move.
fn count_moves(report: &MoveReport, happened: &mut EventCounts) {
    let account = report.account();
    happened.add("pages moved by rounds", account.moved);
    for (reason, pages) in account.skipped {
        happened.add(&format!("pages skipped: {reason}"), pages);
    }
}
