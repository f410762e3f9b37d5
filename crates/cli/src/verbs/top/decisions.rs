//! Who decides about homes: the balancer behind an agent, or a balancer of this program that acts
//! on nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use nodeward_agent::client::{Client, ClientError};
use nodeward_agent::wire::{WireDecision, WireGroup, WireHomes};
use nodeward_balancer::{
    AccessChoice, BalanceSettings, Balancer, GroupRow, ProcessRow, RoundReport, Undecided,
};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, Pid, ProcessFilter, Residency};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::{Decision, Home};

use crate::output::balance::{self, notices};
use crate::output::explain;
use crate::results::ProcessExplanation;
use crate::results::top::{DecidedBy, DecisionFigures, GroupFigures, SampledResidency};

/// CPU time of a balancer that acts on nothing, in millionths of a CPU for 1,000 threads: its
/// decisions are for people, who bear to wait for them.
const LOOKING_PPM: u32 = 3_000;

/// Rounds that it needs before it can decide: loads are differences.
const ROUNDS_TO_DECIDE: u64 = 2;
/// Time between two rounds of it at least, once it has decided: decisions last longer than figures.
const ROUND_NS_MIN: u64 = 3_000_000_000;

/// What was decided about all processes and groups.
#[derive(Default)]
pub struct Decided {
    /// Who decided.
    pub by: DecidedBy,
    /// About processes.
    pub processes: BTreeMap<Pid, ProcessDecision>,
    /// About groups.
    pub groups: Vec<GroupFigures>,
    /// What a reader should know.
    pub notices: Vec<String>,
}

/// What was decided about a process, and what that was decided from.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessDecision {
    /// The decision.
    pub figures: DecisionFigures,
    /// Its threads by the node on which they ran last.
    pub threads: BTreeMap<NodeId, u32>,
    /// Its own memory by node.
    pub residency: SampledResidency,
}

/// Where decisions come from.
pub enum DecisionSource {
    /// A balancer that acts on nothing.
    DryRun(Box<DryRun>),
    /// An agent.
    Agent(Box<AgentSource>),
}

/// A balancer that acts on nothing.
pub struct DryRun {
    machine: Arc<dyn Machine>,
    balancer: Balancer,
    last: Arc<RoundReport>,
    due_ns: u64,
}

/// The connection to an agent.
pub struct AgentSource {
    path: PathBuf,
    /// `None` after a failure, until the next request.
    client: Option<Client>,
    machine: Arc<dyn Machine>,
}

impl DecisionSource {
    /// Creates a balancer with these settings that acts on nothing. It does not observe accesses.
    ///
    /// # Errors
    /// If processes cannot be watched.
    pub fn dry_run(machine: Arc<dyn Machine>, settings: BalanceSettings) -> Result<Self> {
        let settings = BalanceSettings {
            act: false,
            access: AccessChoice::Off,
            steady_ppm: settings.steady_ppm.min(LOOKING_PPM),
            converging_ppm: settings.converging_ppm.min(LOOKING_PPM),
            ..settings
        };
        let wanted = ProcessFilter::default();
        let balancer = Balancer::new(Arc::clone(&machine), &wanted, settings, None)?;
        Ok(Self::DryRun(Box::new(DryRun { machine, balancer, last: Arc::default(), due_ns: 0 })))
    }

    /// Connects to an agent.
    ///
    /// # Errors
    /// If nobody answers there.
    pub fn agent(path: &Path, machine: Arc<dyn Machine>) -> Result<Self> {
        let client = Some(Client::connect(path)?);
        Ok(Self::Agent(Box::new(AgentSource { path: path.to_owned(), client, machine })))
    }

    /// Returns what is decided now.
    ///
    /// # Errors
    /// If the machine as a whole cannot be read.
    pub fn refresh(&mut self) -> Result<Decided> {
        match self {
            Self::DryRun(dry_run) => dry_run.refresh(),
            Self::Agent(agent) => Ok(agent.refresh()),
        }
    }

    /// Returns the decision about a process with its reasons and numbers, or why there is none.
    pub fn explain(&mut self, pid: Pid) -> String {
        match self {
            Self::DryRun(dry_run) => dry_run.explain(pid),
            Self::Agent(agent) => match agent.ask(|client| client.explain(pid)) {
                Ok((_, text)) => text,
                Err(error) => format!("nothing is explained: {error}"),
            },
        }
    }

    /// Returns where the agent says that the memory of a process is; `None` without an agent.
    pub fn residency(&mut self, pid: Pid) -> Option<Result<Residency>> {
        let Self::Agent(agent) = self else { return None };
        let asked = agent.ask(|client| client.residency(pid, false, 0, None));
        Some(asked.map(|(residency, _)| residency).map_err(Into::into))
    }
}

impl DryRun {
    /// Makes a round if one is due: where looking costs much they are rarer.
    fn refresh(&mut self) -> Result<Decided> {
        if self.machine.now_ns() >= self.due_ns {
            let report = self.balancer.round(&MoveControl::default())?;
            let least_ns = if report.round < ROUNDS_TO_DECIDE { 0 } else { ROUND_NS_MIN };
            self.due_ns = report.at_ns + report.interval_ns.max(least_ns);
            if !report.fast {
                self.last = Arc::new(report);
            }
        }
        let report = &self.last;
        let mut notices = Vec::new();
        if report.stands_back {
            notices.push(notices::standing_back(&report.rivals));
        }
        Ok(Decided {
            by: DecidedBy::DryRun,
            processes: report.processes.iter().map(|row| (row.pid, of_row(row, report))).collect(),
            groups: report.groups.iter().map(|row| of_group(row, report)).collect(),
            notices,
        })
    }

    fn explain(&self, pid: Pid) -> String {
        let report = Arc::clone(&self.last);
        let row = report.processes.iter().find(|row| row.pid == pid).cloned();
        let row = row.ok_or_else(|| match report.round {
            0..ROUNDS_TO_DECIDE => Undecided::NoLoad,
            _ => self.balancer.why_undecided(pid),
        });
        explain::process(&ProcessExplanation { pid, report, row }).text
    }
}

impl AgentSource {
    fn refresh(&mut self) -> Decided {
        let (page_bytes, now_ns) = (self.machine.page_bytes(), self.machine.now_ns());
        let asked = self.ask(|client| Ok((client.homes()?, client.groups()?)));
        let (homes, groups) = match asked {
            Ok(answers) => answers,
            Err(error) => {
                let notices = vec![format!("{error}")];
                return Decided { by: DecidedBy::Agent, notices, ..Decided::default() };
            }
        };
        let WireHomes { stands_back, decisions, .. } = homes;
        let of_process =
            |one: WireDecision| (one.pid, of_decision(one, !stands_back, page_bytes, now_ns));
        let of_group = |group: WireGroup| of_wire_group(group, !stands_back, page_bytes);
        Decided {
            by: if stands_back { DecidedBy::AgentStandingBack } else { DecidedBy::Agent },
            processes: decisions.into_iter().map(of_process).collect(),
            groups: groups.groups.into_iter().map(of_group).collect(),
            notices: groups.starts_unseen.into_iter().collect(),
        }
    }

    /// Asks the agent, over a new connection if the last one failed.
    fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.path)?,
        };
        let answer = question(&mut client);
        if matches!(answer, Ok(_) | Err(ClientError::Refused(_))) {
            self.client = Some(client);
        }
        answer
    }
}

fn of_row(row: &ProcessRow, report: &RoundReport) -> ProcessDecision {
    ProcessDecision {
        figures: DecisionFigures {
            action: balance::decision(row.into(), report),
            reasons: reasons(&row.decision),
            ..of_home(row.home.as_ref())
        },
        threads: row.threads.clone(),
        residency: in_bytes(&row.pages, report.page_bytes, row.pages_at_ns),
    }
}

fn of_group(row: &GroupRow, report: &RoundReport) -> GroupFigures {
    GroupFigures {
        name: row.name.to_string(),
        processes: row.processes.clone(),
        threads: row.threads.clone(),
        residency: in_bytes(&row.residency, report.page_bytes, None),
        decision: DecisionFigures {
            action: balance::decision(row.into(), report),
            reasons: reasons(&row.decision),
            ..of_home(row.home.as_ref())
        },
    }
}

fn of_home(home: Option<&Home>) -> DecisionFigures {
    DecisionFigures {
        home: home.map(balance::home),
        home_nodes: home.map(Home::thread_nodes).unwrap_or_default(),
        memory_nodes: home.map(Home::memory_nodes).unwrap_or_default(),
        ..DecisionFigures::default()
    }
}

fn reasons(decision: &Decision) -> Vec<String> {
    let reasons = [Some(decision.reason), decision.threads, decision.memory];
    reasons.into_iter().flatten().map(|reason| reason.name().to_owned()).collect()
}

fn of_decision(wire: WireDecision, acted: bool, page_bytes: u64, now_ns: u64) -> ProcessDecision {
    let home = wire.decided_home();
    let bytes = wire.pages_brought.unwrap_or_default().saturating_mul(page_bytes);
    let brought = (wire.threads_brought.unwrap_or_default(), bytes);
    let reasons = [Some(wire.reason), wire.threads_reason, wire.memory_reason];
    let pages_at_ns = wire.pages_age_ns.map(|age_ns| now_ns.saturating_sub(age_ns));
    ProcessDecision {
        figures: DecisionFigures {
            action: balance::action(&wire.verdict, acted, brought),
            reasons: reasons.into_iter().flatten().collect(),
            ..of_home(home.as_ref())
        },
        threads: wire.threads,
        residency: in_bytes(&wire.pages, page_bytes, pages_at_ns),
    }
}

fn of_wire_group(wire: WireGroup, acted: bool, page_bytes: u64) -> GroupFigures {
    let home = wire.decided_home();
    let bytes = wire.pages_brought.unwrap_or_default().saturating_mul(page_bytes);
    let brought = (wire.threads_brought.unwrap_or_default(), bytes);
    let action = wire.verdict.map(|verdict| balance::action(&verdict, acted, brought));
    let reasons = [wire.reason, wire.threads_reason, wire.memory_reason];
    GroupFigures {
        name: wire.name,
        processes: wire.members.iter().map(|member| member.pid).collect(),
        threads: wire.threads,
        residency: in_bytes(&wire.pages, page_bytes, None),
        decision: DecisionFigures {
            action: action.unwrap_or_default(),
            reasons: reasons.into_iter().flatten().collect(),
            ..of_home(home.as_ref())
        },
    }
}

fn in_bytes(
    pages: &BTreeMap<NodeId, u64>,
    page_bytes: u64,
    at_ns: Option<u64>,
) -> SampledResidency {
    let bytes = pages.iter().map(|(&node, pages)| (node, pages * page_bytes)).collect();
    SampledResidency { bytes, at_ns }
}

#[cfg(test)]
mod tests {
    use nodeward_balancer::Done;
    use nodeward_machine::fake::FakeMachine;
    use nodeward_model::GroupHome;
    use nodeward_policy::placement::{EntityId, Numbers, Reason, Verdict};

    use super::*;
    use crate::verbs::by_agent::tests::with_agent;

    fn machine_at(ns: u64) -> Arc<dyn Machine> {
        let machine = FakeMachine::new(true);
        machine.sleep_ns(ns);
        Arc::new(machine)
    }

    /// Homes of each kind, and none.
    fn homes() -> [Option<Home>; 4] {
        let memory = "0-2".parse().unwrap();
        let spread = Home::Spread("0,2".parse().unwrap());
        let interleave = Home::Interleave { threads: NodeId(1), memory };
        [None, Some(Home::Node(NodeId(1))), Some(spread), Some(interleave)]
    }

    /// A decision about a process that brings 3 threads and 5 pages, of which 2 and 4 came.
    fn decided(home: Option<&Home>) -> (Decision, Done) {
        let verdict = if home.is_some() { Verdict::Moves } else { Verdict::Left };
        let numbers = Numbers { threads_nudged: 3, pages_planned: 5, ..Numbers::default() };
        let memory = home.map(|_| Reason::Pays);
        let decision = Decision::new(EntityId(1), verdict, Reason::Bottleneck);
        let done = Done { threads_placed: 2, pages_moved: 4, ..Done::default() };
        (Decision { memory, numbers, ..decision }, done)
    }

    /// This process, with 7 pages on node 0 and 2 on node 2.
    fn process(home: Option<Home>) -> ProcessRow {
        let (decision, done) = decided(home.as_ref());
        ProcessRow {
            pid: Pid::of_this_process(),
            name: "top".into(),
            home,
            decision,
            counted_pages: None,
            changed: false,
            threads: [(NodeId(2), 3)].into(),
            pages: [(NodeId(0), 7), (NodeId(2), 2)].into(),
            pages_at_ns: Some(0),
            segments: Vec::new(),
            done,
        }
    }

    /// Goal: what the agent tells of a process is what `top` shows without it: the home with its
    /// kind, where threads and memory belong, what was brought there or would be, and why. Its
    /// clock is at 0, when the memory was sampled, and ours at 7.
    #[test]
    fn the_agent_tells_what_a_dry_run_would() {
        with_agent(|path, agent| {
            let mut source = DecisionSource::agent(path, machine_at(7)).unwrap();
            for (home, acted) in
                homes().into_iter().flat_map(|home| [(home.clone(), true), (home, false)])
            {
                let report = RoundReport {
                    round: 9,
                    acted,
                    stands_back: !acted,
                    page_bytes: 4096,
                    processes: vec![process(home)],
                    ..RoundReport::default()
                };
                agent.publish(&report);
                let told = source.refresh().unwrap().processes;
                let mut expected = of_row(&report.processes[0], &report);
                expected.residency.at_ns = Some(7);
                assert_eq!(told[&Pid::of_this_process()], expected);
            }
        });
    }

    /// Goal: memory of a home with several nodes is away only where none of these is: of 7 pages on
    /// node 0 and 2 on node 2 none with memory on 0-2, though threads belong on 1, and all 9 with
    /// everything on 1.
    #[test]
    fn memory_belongs_where_the_home_has_it() {
        let away = |home: &Option<Home>| {
            let row = of_row(
                &process(home.clone()),
                &RoundReport { page_bytes: 1, ..RoundReport::default() },
            );
            row.figures.bytes_away(&row.residency)
        };
        assert_eq!(homes().each_ref().map(away), [None, Some(9), Some(0), Some(0)]);
    }

    /// Goal: groups, too, have their homes with the kind and the nodes of memory by the agent, with
    /// what was brought there or would be, and why.
    #[test]
    fn groups_have_homes_as_without_the_agent() {
        with_agent(|path, agent| {
            let mut client = Client::connect(path).unwrap();
            let name: nodeward_model::GroupName = "kv".parse().unwrap();
            let number = client.create_group(&name, &GroupHome::Auto).unwrap();
            let mut source = DecisionSource::agent(path, machine_at(7)).unwrap();
            for (home, acted) in
                homes().into_iter().flat_map(|home| [(home.clone(), true), (home, false)])
            {
                let (decision, done) = decided(home.as_ref());
                let row = GroupRow {
                    name: name.clone(),
                    called: Some(number),
                    home,
                    decision,
                    changed: false,
                    processes: Vec::new(),
                    threads: BTreeMap::new(),
                    residency: [(NodeId(0), 7)].into(),
                    done,
                };
                let report = RoundReport {
                    round: 9,
                    acted,
                    stands_back: !acted,
                    page_bytes: 4096,
                    groups: vec![row],
                    ..RoundReport::default()
                };
                agent.publish(&report);
                let told = source.refresh().unwrap().groups.remove(0).decision;
                assert_eq!(told, of_group(&report.groups[0], &report).decision);
            }
        });
    }
}
